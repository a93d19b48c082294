import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { read, root } from './pages.js';

interface ComposeService {
	image: string;
	init?: boolean;
	entrypoint?: string[];
	environment?: Record<string, string>;
	volumes?: string[];
	networks: string[];
	ports?: string[];
	read_only?: boolean;
	pids_limit?: number;
	ulimits?: { core?: number };
	healthcheck?: { timeout: string };
	cap_drop?: string[];
	tmpfs?: string[];
}

const compose = parse(read('docker-compose.yml'), { merge: true }) as {
	services: Record<string, ComposeService>;
	networks: Record<string, { internal?: boolean }>;
};
const isInternal = (network: string) => compose.networks[network]?.internal === true;
const membersOf = (network: string) =>
	Object.keys(compose.services).filter((name) => compose.services[name]?.networks.includes(network));

describe.each(Object.entries(compose.services))('the container of %s', (name, service) => {
	test('has a read-only file system, no capabilities that it does not add, and a limit of processes', () => {
		expect([service.read_only, service.cap_drop]).toEqual([true, ['ALL']]);
		expect(service.pids_limit).toBeGreaterThan(0);
	});

	test('writes no core file, which would contain keys and passwords', () => {
		expect(service.ulimits?.core).toBe(0);
	});

	test('reaches the outside only where it needs to', () => {
		const leadsOutside = service.networks.filter((network) => !isInternal(network));
		const expected: Record<string, string[]> = {
			gateway: ['public'],
			'bot-gateway': ['bot'],
			'crm-sync': ['crm'],
			contacts: ['crm'],
			prometheus: ['monitoring'],
		};
		expect(leadsOutside).toEqual(expected[name] ?? []);
	});

	test('publishes its ports on 127.0.0.1 only, from a network that allows it', () => {
		for (const port of service.ports ?? []) {
			expect(port).toMatch(/^127\.0\.0\.1:/);
			expect(service.networks.some((network) => !isInternal(network))).toBe(true);
		}
	});
});

test('the database lies in the volume with every version of PostgreSQL', () => {
	const { environment, volumes } = compose.services.postgres ?? {};
	const [volume, folder] = volumes?.[0]?.split(':') ?? [];
	expect(volume).toBe('data');
	expect(environment?.PGDATA).toMatch(new RegExp(`^${folder}/`));
});

test('the database is created in the encoding and the locale of the embedded one, whatever the locale of the image is', () => {
	const args = compose.services.postgres?.environment?.POSTGRES_INITDB_ARGS?.split(' ');
	const embedded = read('packages/testing/src/embedded-postgres.ts').match(/--(encoding|locale)=[^']+/g);
	expect(embedded).toEqual(['--encoding=UTF8', '--locale=C']);
	expect(args).toEqual(embedded);
});

test('a command of the operator can be stopped with Ctrl-C and SIGTERM', () => {
	const operators = Object.entries(compose.services).filter(([, { image }]) => image.includes('/cli:'));
	expect(operators.map(([name, { init }]) => [name, init])).toEqual([
		['migrate', true],
		['contacts', true],
		['privacy', true],
	]);
});

describe('./contacts', () => {
	/** The database role of the container, and what the script says to Docker. */
	async function called(args: string[], environment: Record<string, string> = {}) {
		const folder = await temporaryFolder();
		mkdirSync(join(folder, 'bin'));
		const docker = '#!/bin/sh\nprintf "%s\\n" "$CONTACTS_ACTOR" "$@"\n';
		writeFileSync(join(folder, 'bin', 'docker'), docker, { mode: 0o755 });
		const env = { ...environment, PATH: `${join(folder, 'bin')}:${process.env.PATH}` };
		const printed = execFileSync(join(root, 'contacts'), args, { env, cwd: folder, encoding: 'utf8' });
		const [actor, ...words] = printed.trimEnd().split('\n');
		const service = words.find((word) => word in compose.services) ?? '';
		const role = /^postgres:\/\/(\w+):/.exec(compose.services[service]?.environment?.DATABASE_URL ?? '')?.[1];
		return { actor, role, words, passed: words.slice(words.indexOf(service) + 1) };
	}

	test.each([
		[['migrate', '--json'], 'contacts_owner'],
		[['person', 'export', '--chat', '-1'], 'contacts_privacy'],
		[['project', 'create', 'a b'], 'contacts_operator'],
		[['import', '-', '--format', 'csv'], 'contacts_operator'],
		[['--help'], 'contacts_operator'],
		[[], 'contacts_operator'],
	])('%j: gives the command unchanged to the container with the role %s', async (args, role) => {
		const { words, ...call } = await called(args);
		expect(call).toMatchObject({ role, passed: args });
		expect(words.slice(0, 4)).toEqual(['compose', 'run', '--rm', '--no-TTY']);
	});

	test('names the user and machine for the audit log, unless CONTACTS_ACTOR does', async () => {
		expect((await called(['audit'])).actor).toMatch(/^[\w-]+@[\w.-]+$/);
		expect((await called(['audit'], { CONTACTS_ACTOR: 'alice' })).actor).toBe('alice');
	});
});

test('the nightly backup can be stopped with SIGTERM, and finds its scripts', () => {
	const { init, volumes, entrypoint } = compose.services.backup ?? {};
	expect(init).toBe(true);
	const [folder, place] = volumes?.[0]?.split(':') ?? [];
	const script = entrypoint?.at(-1)?.replace(String(place), String(folder));
	expect(read(String(script))).toContain('sh backup.sh');
});

test.each([
	['gateway', ['company-contacts', 'crm-sync']],
	['bot-gateway', ['personal-contacts']],
])('%s can reach %j and nothing else', (name, reached) => {
	const neighbours = compose.services[name]?.networks.flatMap(membersOf) ?? [];
	expect([...new Set(neighbours)].toSorted()).toEqual([...reached, name].toSorted());
});

test.each(['gateway', 'bot-gateway'])('the memory file systems of %s have a size limit', (name) => {
	expect(compose.services[name]?.tmpfs?.filter((each) => !/size=\d+m/.test(each))).toEqual([]);
});

test('every probe waits as long as the readiness check may take', () => {
	const [, ofImages] = /--timeout=(\S+)/.exec(read('Dockerfile')) ?? [];
	const ofGateways = ['gateway', 'bot-gateway'].map((name) => compose.services[name]?.healthcheck?.timeout);
	expect([ofImages, ...ofGateways]).toEqual(['5s', '5s', '5s']);
});

test('Prometheus can reach every process that has metrics', () => {
	const { scrape_configs } = parse(read('operations/prometheus/prometheus.yml')) as {
		scrape_configs: { dns_sd_configs: { names: string[]; port: number }[] }[];
	};
	const reached = compose.services.prometheus?.networks.flatMap(membersOf) ?? [];
	const targets = scrape_configs.flatMap((job) => job.dns_sd_configs.flatMap(({ names }) => names));
	expect(targets).toEqual(['personal-contacts', 'company-contacts', 'crm-sync']);
	expect(targets.filter((name) => !reached.includes(name))).toEqual([]);
});

test('neither git nor a build includes the certificates beside the compose file', () => {
	const [, folder] = /\$\{TLS_CERTIFICATES:-\.\/([^}]+)\}/.exec(read('operations/tls/docker-compose.yml')) ?? [];
	expect(read('.gitignore').split('\n')).toContain(`/${folder}/`);
	expect(read('.dockerignore').split('\n')).toContain(folder);
});

test('CI pins every action by its commit', () => {
	const uses = ['ci', 'nightly', 'release'].flatMap((name) => [
		...read(`.github/workflows/${name}.yml`).matchAll(/uses: (\S+)(.*)/g),
	]);
	expect(uses.length).toBeGreaterThan(0);
	for (const [, action, comment] of uses) {
		expect(action).toMatch(/@[0-9a-f]{40}$/);
		expect(comment).toMatch(/^ # v\d+\.\d+\.\d+$/);
	}
});
