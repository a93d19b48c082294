import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { files, read, root } from './pages.js';

interface ComposeService {
	image: string;
	pull_policy?: string;
	environment?: Record<string, string>;
	volumes?: string[];
	/** None: it reaches nothing. */
	networks?: string[];
	user?: string;
	ports?: string[];
	read_only?: boolean;
	pids_limit?: number;
	ulimits?: { core?: number };
	cap_drop?: string[];
	tmpfs?: string[];
}

const { services, networks } = parse(read('docker-compose.yml'), { merge: true }) as {
	services: Record<string, ComposeService>;
	networks: Record<string, { internal?: boolean }>;
};
const containers = Object.entries(services);
const isInternal = (network: string) => networks[network]?.internal === true;
const membersOf = (network: string) =>
	containers.filter(([, each]) => each.networks?.includes(network)).map(([name]) => name);
const reachedBy = (container: string) => [...new Set(services[container]?.networks?.flatMap(membersOf))].toSorted();

test.each(containers)(
	'%s has a read-only file system, no capabilities that it does not add, a limit of processes, and writes no core file',
	(_, each) => {
		expect([each.read_only, each.cap_drop, each.ulimits?.core]).toEqual([true, ['ALL'], 0]);
		expect(each.pids_limit).toBeGreaterThan(0);
	},
);

test('a container reaches the outside only where it needs to, and publishes its ports on 127.0.0.1 only', () => {
	const outside = containers.map(([name, { networks: all = [] }]) => [
		name,
		all.filter((network) => !isInternal(network)),
	]);
	expect(Object.fromEntries(outside.filter(([, network]) => network?.length !== 0))).toEqual({
		gateway: ['public'],
		'bot-gateway': ['bot'],
		'crm-sync': ['crm'],
		contacts: ['crm'],
		prometheus: ['prometheus'],
		alertmanager: ['alertmanager'],
		grafana: ['grafana'],
	});
	for (const [, { ports = [] }] of containers) for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
});

test('a gateway can reach its services and nothing else, and fills no memory with files', () => {
	expect(reachedBy('gateway')).toEqual(['company-contacts', 'crm-sync', 'gateway']);
	expect(reachedBy('bot-gateway')).toEqual(['bot-gateway', 'personal-contacts']);
	for (const name of ['gateway', 'bot-gateway'])
		expect(services[name]?.tmpfs?.filter((file) => !/size=\d+m/.test(file))).toEqual([]);
});

test('Prometheus can reach every process that has metrics, and what monitors with it, and these only Prometheus', () => {
	interface Targets {
		static_configs?: { targets: string[] }[];
		dns_sd_configs?: { names: string[] }[];
	}
	const config = parse(read('operations/prometheus/prometheus.yml')) as {
		scrape_configs: Targets[];
		alerting: { alertmanagers: Targets[] };
	};
	const hostsOf = (all: Targets[]) =>
		all.flatMap(({ dns_sd_configs = [], static_configs = [] }) => [
			...dns_sd_configs.flatMap(({ names }) => names),
			...static_configs.flatMap(({ targets }) => targets.map((target) => target.split(':')[0])),
		]);
	const scraped = hostsOf(config.scrape_configs);
	expect(scraped).toEqual(['personal-contacts', 'company-contacts', 'crm-sync', 'node-exporter']);
	const others = [...hostsOf(config.alerting.alertmanagers), 'grafana'];
	expect(reachedBy('prometheus')).toEqual([...scraped, ...others, 'prometheus'].toSorted());
	for (const name of ['node-exporter', 'alertmanager', 'grafana']) {
		expect(reachedBy(name)).toEqual([name, 'prometheus'].toSorted());
	}
});

test('the node exporter is nobody, and writes nowhere', () => {
	expect(services['node-exporter']?.user).toBe('65534:65534');
	expect(services['node-exporter']?.volumes?.filter((volume) => !volume.endsWith(':ro'))).toEqual([]);
});

describe('Grafana', () => {
	const { environment = {}, volumes = [] } = services.grafana as ComposeService;
	const [local = '', folder = ''] = volumes[0]?.split(':') ?? [];
	const provisioned = (path: string) => parse(read(join(local, path))) as Record<string, unknown>;

	test('reads its provisioning from the folder that the repository has', () => {
		expect(environment.GF_PATHS_PROVISIONING).toBe(folder);
		expect(provisioned('datasources/prometheus.yml')).toMatchObject({
			apiVersion: 1,
			datasources: [{ type: 'prometheus', access: 'proxy', url: 'http://prometheus:9090', isDefault: true }],
		});
		expect(provisioned('dashboards/contacts.yml')).toMatchObject({
			apiVersion: 1,
			providers: [{ type: 'file', options: { path: folder } }],
		});
		const home = environment.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH?.replace(folder, local) ?? '';
		expect(JSON.parse(read(home))).toMatchObject({ uid: 'contacts' });
	});

	test('has no user, so nobody logs in with a password that everybody knows', () => {
		expect(environment).toMatchObject({
			GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION: 'true',
			GF_AUTH_ANONYMOUS_ENABLED: 'true',
		});
		expect(environment.GF_AUTH_ANONYMOUS_ORG_ROLE ?? 'Viewer').toBe('Viewer');
	});
});

test('no program can reach another one', () => {
	const programs = ['personal-contacts', 'company-contacts', 'crm-sync'];
	for (const program of programs)
		expect(reachedBy(program).filter((name) => programs.includes(name))).toEqual([program]);
});

/** Every override that publishes a port. */
const overrides = ['operations/tls/docker-compose.yml', 'operations/tls/ipv6.yml', 'operations/bot-address.yml'];

test.each(overrides)('%s opens a port to other machines, and requires each password that has a default', (path) => {
	const passwords = new Set(
		[...read('docker-compose.yml').matchAll(/\$\{([A-Z_]+):-local-only-/g)].map(([, name]) => name),
	);
	const override = parse(read(path)) as { 'x-passwords': string[]; services: Record<string, ComposeService> };
	const ports = Object.values(override.services).flatMap((each) => each.ports ?? []);
	expect(ports.length).toBeGreaterThan(0);
	for (const port of ports) expect(port).not.toMatch(/^(127\.|\[::1\])/);
	const required = override['x-passwords'].map((value) => /^\$\{([A-Z_]+):\?[^}]+\}$/.exec(value)?.[1]);
	expect(required.toSorted()).toEqual([...passwords].toSorted());
});

test('there is no other file that publishes a port', () => {
	const compose = files.filter((path) => /^operations\/.*\.yml$/.test(path) && /^ *ports:/m.test(read(path)));
	expect(compose.toSorted()).toEqual(overrides.toSorted());
});

test('the containers of this repository’s images never ask a registry, unless a setting says so', () => {
	for (const [name, { image, pull_policy }] of containers) {
		if (!image.includes('CONTACTS_IMAGES')) continue;
		expect(image, name).toMatch(/^\$\{CONTACTS_IMAGES:-localhost\//);
		expect(pull_policy, name).toMatch(/^\$\{CONTACTS_PULL_POLICY:-never\}$/);
	}
});

test('the database lies in the volume with every version of PostgreSQL', () => {
	const [volume, folder] = services.postgres?.volumes?.[0]?.split(':') ?? [];
	expect(volume).toBe('data');
	expect(services.postgres?.environment?.PGDATA).toMatch(new RegExp(`^${folder}/`));
});

describe('./contacts', () => {
	/** The database role of the container, and what the script says to Docker. */
	async function called(args: string[], environment: Record<string, string> = {}, settings = '') {
		const folder = await temporaryFolder();
		copyFileSync(join(root, 'contacts'), join(folder, 'contacts'));
		writeFileSync(join(folder, '.env'), settings);
		mkdirSync(join(folder, 'bin'));
		const docker = '#!/bin/sh\nprintf "%s\\n" "$CONTACTS_ACTOR" "$@"\n';
		writeFileSync(join(folder, 'bin', 'docker'), docker, { mode: 0o755 });
		const env = { ...environment, PATH: `${join(folder, 'bin')}:${process.env.PATH}` };
		const printed = execFileSync(join(folder, 'contacts'), args, { env, cwd: folder, encoding: 'utf8' });
		const [actor, ...words] = printed.trimEnd().split('\n');
		const service = words.find((word) => word in services) ?? '';
		const role = /^postgres:\/\/(\w+):/.exec(services[service]?.environment?.DATABASE_URL ?? '')?.[1];
		return { actor, role, words, passed: words.slice(words.indexOf(service) + 1) };
	}

	test.each([
		[['migrate', '--json'], 'contacts_owner'],
		[['person', 'export', '--chat', '-1'], 'contacts_privacy'],
		[['project', 'create', 'a b'], 'contacts_operator'],
		[[], 'contacts_operator'],
	])('%j: gives the command unchanged to the container with the role %s', async (args, role) => {
		const { words, ...call } = await called(args);
		expect(call).toMatchObject({ role, passed: args });
		expect(words.slice(0, 4)).toEqual(['compose', 'run', '--rm', '-T']);
	});

	test('names the user and machine for the audit log, unless CONTACTS_ACTOR does', async () => {
		expect((await called(['audit'])).actor).toMatch(/^[\w-]+@[\w.-]+$/);
		expect((await called(['audit'], { CONTACTS_ACTOR: 'alice' })).actor).toBe('alice');
		// What .env says is read by Compose alone.
		for (const line of ['CONTACTS_ACTOR=carol', 'CONTACTS_ACTOR = carol', "export CONTACTS_ACTOR='carol'"])
			expect([line, (await called(['audit'], {}, line)).actor]).toEqual([line, '']);
		for (const line of ['CONTACTS_ACTOR=\r', 'CONTACTS_ACTOR=""', '# CONTACTS_ACTOR=carol'])
			expect([line, (await called(['audit'], {}, line)).actor]).toEqual([line, expect.stringMatching(/^.+@.+$/)]);
	});
});

test('neither git nor a build includes the certificates beside the compose file', () => {
	const [, folder] = /\$\{TLS_CERTIFICATES:-\.\/([^}]+)\}/.exec(read('operations/tls/docker-compose.yml')) ?? [];
	expect(read('.gitignore').split('\n')).toContain(`/${folder}/`);
	expect(read('.dockerignore').split('\n')).toContain(folder);
});
