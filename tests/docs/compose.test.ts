import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { read } from './pages.js';

interface ComposeService {
	image: string;
	init?: boolean;
	environment?: Record<string, string>;
	volumes?: string[];
	networks: string[];
	ports?: string[];
	read_only?: boolean;
	pids_limit?: number;
	logging?: { options: Record<string, string> };
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

	test('keeps a bounded log', () => {
		expect(service.logging?.options).toEqual({ 'max-size': '20m', 'max-file': '5' });
	});

	test('reaches the outside only where it needs to', () => {
		const leadsOutside = service.networks.filter((network) => !isInternal(network));
		const expected: Record<string, string[]> = {
			gateway: ['public'],
			'personal-contacts': ['bot'],
			'company-contacts-sync': ['crm'],
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

	test('has an image that is built here or that a variable can pin by digest', () => {
		expect(service.image).toMatch(/^contacts\/[a-z-]+$|^\$\{[A-Z]+_IMAGE:-[a-z/]+:[\w.-]+\}$/);
	});
});

test('the database lies in the volume with every version of PostgreSQL', () => {
	const { environment, volumes } = compose.services.postgres ?? {};
	const [volume, folder] = volumes?.[0]?.split(':') ?? [];
	expect(volume).toBe('data');
	expect(environment?.PGDATA).toMatch(new RegExp(`^${folder}/`));
});

test('a command of the operator can be stopped with Ctrl-C and SIGTERM', () => {
	const operators = Object.entries(compose.services).filter(([, { image }]) => image === 'contacts/operator');
	expect(operators.map(([name, { init }]) => [name, init])).toEqual([
		['migrate', true],
		['contacts', true],
		['privacy', true],
	]);
});

test('the gateway can reach neither the database, Redis nor personal-contacts', () => {
	const neighbours = compose.services.gateway?.networks.flatMap(membersOf) ?? [];
	expect([...new Set(neighbours)].toSorted()).toEqual(['company-contacts', 'company-contacts-sync', 'gateway']);
});

test('the memory file systems of the gateway have a size limit', () => {
	expect(compose.services.gateway?.tmpfs?.filter((each) => !/size=\d+m/.test(each))).toEqual([]);
});

test('every probe waits as long as the readiness check may take', () => {
	const [, ofImages] = /--timeout=(\S+)/.exec(read('Dockerfile')) ?? [];
	expect([ofImages, compose.services.gateway?.healthcheck?.timeout]).toEqual(['5s', '5s']);
});

test('Prometheus can reach every process that has metrics', () => {
	const { scrape_configs } = parse(read('operations/prometheus/prometheus.yml')) as {
		scrape_configs: { dns_sd_configs: { names: string[]; port: number }[] }[];
	};
	const reached = compose.services.prometheus?.networks.flatMap(membersOf) ?? [];
	const targets = scrape_configs.flatMap((job) => job.dns_sd_configs.flatMap(({ names }) => names));
	expect(targets).toEqual(['personal-contacts', 'company-contacts', 'company-contacts-sync']);
	expect(targets.filter((name) => !reached.includes(name))).toEqual([]);
});

test('neither git nor a build includes the certificates beside the compose file', () => {
	const [, folder] = /\$\{TLS_CERTIFICATES:-\.\/([^}]+)\}/.exec(read('operations/tls/docker-compose.yml')) ?? [];
	expect(read('.gitignore').split('\n')).toContain(`/${folder}/`);
	expect(read('.dockerignore').split('\n')).toContain(folder);
});

test('CI pins every action by its commit', () => {
	const uses = [
		...(read('.github/workflows/ci.yml') + read('.github/workflows/nightly.yml')).matchAll(/uses: (\S+)(.*)/g),
	];
	expect(uses.length).toBeGreaterThan(0);
	for (const [, action, comment] of uses) {
		expect(action).toMatch(/@[0-9a-f]{40}$/);
		expect(comment).toMatch(/^ # v\d+\.\d+\.\d+$/);
	}
});
