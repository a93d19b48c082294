import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { acceptedLines } from '@contacts/testing/environment-files.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pages } from '../docs/pages.js';
import { environment, Installation } from './installation.js';
import { loop, send } from './requests.js';

const run = promisify(execFile);
const here = new Installation();
let credentials = '';

const listUrl = () => `http://127.0.0.1:${here.publicPort}/api/company_contacts.list?${credentials}`;
const upsertUrl = () => `http://127.0.0.1:${here.botPort}/api/personal_contacts?${credentials}`;
const list = () => send(listUrl());
const upsert = (chat: number, name: string) => send(upsertUrl(), { chat_id: chat, name });
const stored = (chat: number) => here.sh(`./contacts person export --chat ${chat}`);

/** Until every container is healthy or, without a health check, runs. */
async function allHealthy(): Promise<void> {
	const unhealthy = () =>
		here
			.sh("docker compose ps --format '{{.Service}} {{.State}} {{.Health}}'")
			.match(/^\S+ (?!running (healthy)?$).*$/gm);
	await waitUntil(() => unhealthy() === null, { timeoutMs: 120_000, message: () => String(unhealthy()) });
}

beforeAll(async () => {
	await here.create();
	here.sh("docker compose --profile '*' build");
	here.useProxy();
});
afterAll(() => here.remove());

describe('docker compose', () => {
	test('finishes a first start that failed', () => {
		here.sh('chmod go= packages/migrations/owner.sql');
		const failed = here.try('docker compose up --detach');
		expect([failed.status, failed.stderr]).toEqual([1, expect.stringContaining('service "roles" didn\'t complete')]);
		here.sh('sh operations/readable.sh');
		here.sh('docker compose up --detach --wait --wait-timeout 300');
	});

	test('starts everything, and publishes ports on 127.0.0.1 only', async () => {
		await allHealthy();
		const services = here.sh("docker compose ps --format '{{.Service}}'").trim().split('\n');
		expect(services.toSorted()).toEqual([
			...['alertmanager', 'backup', 'bot-gateway', 'company-contacts', 'gateway', 'grafana', 'node-exporter'],
			...['personal-contacts', 'postgres', 'prometheus', 'redis'],
		]);
		for (const container of here.containers()) {
			const ports = here.inspect('{{range .NetworkSettings.Ports}}{{range .}}{{.HostIp}} {{end}}{{end}}', container);
			expect(ports.split(' ').filter((address) => address !== '' && address !== '127.0.0.1')).toEqual([]);
		}
	});

	test('responds through both gateways to a key that ./contacts creates', async () => {
		here.sh('./contacts project create acme');
		const { key } = JSON.parse(here.sh('./contacts key create acme --json')) as { key: string };
		credentials = `project=acme&api_key=${key}`;
		expect(await list()).toMatchObject({ status: 200, body: '{"count":0,"data":[]}' });
		expect(await upsert(1, 'First')).toMatchObject({ status: 200, body: '{"ok":"saved"}' });
		here.sh('./contacts doctor');
	});

	test('lets 250 of 300 requests at once pass, and what is refilled meanwhile', async () => {
		// A process that has just started decides by itself when Redis takes more than 50 ms: this is about one that has run.
		here.sh('./contacts project create warm-up');
		const { key } = JSON.parse(here.sh('./contacts key create warm-up --json')) as { key: string };
		const warmUp = listUrl().replace(credentials, `project=warm-up&api_key=${key}`);
		for (let wave = 0; wave < 10; wave++) await Promise.all(Array.from({ length: 50 }, () => send(warmUp)));
		const startedAt = performance.now();
		// A machine that is busy with the test lets the service refuse some for now, before the limit counts them.
		const admitted = async () => {
			let response = await list();
			while (response.status === 503) response = await list();
			return response;
		};
		const responses = await Promise.all(Array.from({ length: 300 }, admitted));
		const refilled = Math.ceil(((performance.now() - startedAt) / 1000) * 5);
		const passed = responses.filter(({ status }) => status === 200).length;
		expect(passed).toBeGreaterThanOrEqual(250);
		expect(passed).toBeLessThanOrEqual(250 + refilled);
		expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200, 429]));
	});
});

test('each container reaches only what it needs to, by name and by address', async () => {
	// No CRM has this name: the synchroniser runs, and mirrors nothing.
	const url = 'https://crm.invalid/rest/1/abcdefghijklmnop/';
	here.set({ COMPOSE_PROFILES: 'backup,crm,monitoring', BITRIX24_WEBHOOK_URL: url });
	here.sh('docker compose up --detach --wait --wait-timeout 300');
	const ports: Record<string, number> = {
		...{ postgres: 5432, redis: 6379, 'personal-contacts': 3001, 'company-contacts': 3000, 'crm-sync': 3002 },
		...{ gateway: 8080, 'bot-gateway': 3001 },
		...{ prometheus: 9090, alertmanager: 9093, 'node-exporter': 9100, grafana: 3000 },
	};
	const services = [...Object.keys(ports), 'backup'];
	const containers = Object.fromEntries(services.map((name) => [name, here.containers(name)[0] ?? '']));
	const targets = Object.entries(ports).flatMap(([name, port]) => {
		const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}';
		const addresses = here
			.inspect(format, containers[name] ?? '')
			.split(' ')
			.filter(Boolean);
		return [name, ...addresses].map((host) => ({ name, host, port }));
	});
	const probe = `
		const net = require('node:net');
		const reached = new Set();
		const one = ({ name, host, port }) => new Promise((resolve) => {
			const socket = net.connect({ host, port, timeout: 2000 });
			socket.on('connect', () => { reached.add(name); socket.destroy(); });
			socket.on('timeout', () => socket.destroy()).on('error', () => {}).on('close', resolve);
		});
		// A name of another network is looked up outside, for half a minute where nothing responds.
		const ended = new Promise((resolve) => setTimeout(resolve, 8000));
		Promise.race([ended, Promise.all(${JSON.stringify(targets)}.map(one))]).then(() => {
			console.log(JSON.stringify([...reached].sort()));
			process.exit();
		});`;
	const reached: Record<string, string[]> = {};
	for (const name of services) {
		const network = `container:${containers[name]}`;
		const node = ['--entrypoint', 'node', `${here.images}/cli:0.1.0`, '-e', probe];
		const { stdout } = await run('docker', ['run', '--rm', '--network', network, ...node], { env: environment });
		reached[name] = (JSON.parse(stdout) as string[]).filter((target) => target !== name);
	}
	expect(reached).toEqual({
		postgres: ['company-contacts', 'crm-sync', 'personal-contacts', 'redis'],
		redis: ['company-contacts', 'postgres'],
		backup: ['postgres', 'redis'],
		'personal-contacts': ['bot-gateway', 'postgres', 'prometheus'],
		'company-contacts': ['gateway', 'postgres', 'prometheus', 'redis'],
		'crm-sync': ['gateway', 'postgres', 'prometheus'],
		gateway: ['company-contacts', 'crm-sync'],
		'bot-gateway': ['personal-contacts'],
		prometheus: ['alertmanager', 'company-contacts', 'crm-sync', 'grafana', 'node-exporter', 'personal-contacts'],
		alertmanager: ['prometheus'],
		'node-exporter': ['prometheus'],
		grafana: ['prometheus'],
	});
});

test('no role creates temporary tables in a database that every server has', () => {
	const rights = `select has_database_privilege('company_contacts_service', datname, 'temporary') from pg_database where datname <> 'contacts'`;
	const allowed = here.sh(`docker compose exec -T postgres psql -U postgres -At -c "${rights.replaceAll('"', '')}"`);
	expect(new Set(allowed.trim().split('\n'))).toEqual(new Set(['f']));
});

test('a nightly dump is restored by the commands of docs/backup.md', async () => {
	here.sh('docker compose exec -T backup sh /backup/backup.sh');
	expect(await upsert(2, 'After the dump')).toMatchObject({ status: 200 });
	const dump = readdirSync(join(here.folder, 'backups')).find((name) => name.endsWith('.dump')) ?? '';
	const page = pages.find(({ path }) => path === 'docs/backup.md');
	const commands = page?.blocks.find(({ text }) => text.startsWith('docker compose stop'))?.text ?? '';
	here.sh(commands.replace('contacts-DATE.dump', dump).replaceAll('exec postgres', 'exec -T postgres'));
	await allHealthy();
	expect(stored(1)).toContain('First');
	expect(() => stored(2)).toThrow('Nothing is stored about this person.');
});

describe('operations/upgrade.sh', () => {
	const upgrade = (version: string) =>
		run('sh', ['operations/upgrade.sh', version], { cwd: here.folder, env: environment });

	/** Changes the release under requests, and prints how many there were. */
	async function underRequests(what: string, change: () => Promise<unknown>) {
		const loops = [loop(20, list), loop(20, (number) => upsert(100 + (number % 50), `Name ${number}`))];
		const startedAt = performance.now();
		await change();
		const seconds = Math.round((performance.now() - startedAt) / 1000);
		// Until what was sent to a replica that has gone would have failed.
		await new Promise((resolve) => setTimeout(resolve, 3000));
		const outcomes = await Promise.all(loops.map(({ stop }) => stop()));
		process.stdout.write(`${what}: ${seconds} s; lists and upserts: ${JSON.stringify(outcomes)}\n`);
		for (const { counts } of outcomes) expect(Object.keys(counts)).toEqual(['200']);
	}
	const versions = (service: string) =>
		here.containers(service).map((container) => here.inspect('{{.Config.Image}}', container).split(':').at(-1));

	beforeAll(() => here.tagVersion('0.2.0'));

	test('applies a changed setting', async () => {
		here.set({ RATE_LIMIT_PER_SECOND: '1000', RATE_LIMIT_BURST: '100000' });
		await upgrade('0.1.0');
		expect((await list()).headers['ratelimit-limit']).toBe('100000');
	});

	test.each([1, 2])('changes the release and back with %i replicas, and no request fails', async (replicas) => {
		here.set({ COMPANY_CONTACTS_REPLICAS: String(replicas), PERSONAL_CONTACTS_REPLICAS: String(replicas) });
		await underRequests(`${replicas} of each service, the same version`, () => upgrade('0.1.0'));
		for (const version of ['0.2.0', '0.1.0']) {
			await underRequests(`${replicas} of each service, to ${version}`, () => upgrade(version));
			const expected = Array.from({ length: replicas }, () => version);
			expect([versions('company-contacts'), versions('personal-contacts')]).toEqual([expected, expected]);
			expect(readFileSync(join(here.folder, '.env'), 'utf8')).toMatch(new RegExp(`^CONTACTS_VERSION=${version}$`, 'm'));
		}
	});

	test('keeps the release that runs when there is no image of the version', async () => {
		const before = readFileSync(join(here.folder, '.env'), 'utf8');
		await expect(upgrade('9.9.9')).rejects.toMatchObject({ code: 1 });
		expect(readFileSync(join(here.folder, '.env'), 'utf8')).toBe(before);
	});
});

test.each([...['postgres', 'redis', 'company-contacts', 'personal-contacts', 'crm-sync', 'gateway', 'bot-gateway']])(
	'everything works again after a process of %s is killed',
	async (service) => {
		const [container = ''] = here.containers(service);
		const [pid, started] = here.inspect('{{.State.Pid}} {{.State.StartedAt}}', container).split(' ');
		// From a container: the main process of one cannot be killed from within, and "docker kill" would keep it stopped.
		const bash = `--rm --pid host --user 0 --entrypoint bash ${here.images}/cli:0.1.0`;
		here.sh(`docker run --cap-add KILL ${bash} -c 'kill -9 ${pid}'`);
		await waitUntil(() => here.inspect('{{.State.StartedAt}}', container) !== started, { timeoutMs: 60_000 });
		await allHealthy();
		await expect.poll(list, { timeout: 60_000 }).toMatchObject({ status: 200 });
		await expect.poll(() => upsert(3, service), { timeout: 60_000 }).toMatchObject({ status: 200 });
	},
);

test('"down" and "up" keep everything', async () => {
	here.sh('docker compose down');
	here.sh('docker compose up --detach --wait --wait-timeout 300');
	// Connections from before are broken.
	await expect.poll(list, { timeout: 60_000 }).toMatchObject({ status: 200 });
	expect(stored(1)).toContain('First');
});

describe('docker compose config', () => {
	const config = (...args: string[]) => here.try(`docker compose ${args.join(' ')} config`);
	const withoutEnv = '--env-file /dev/null';
	const [main, tls, bot] = [
		'docker-compose.yml',
		'operations/tls/docker-compose.yml',
		'operations/bot-address.yml',
	].map((file) => `--file ${file}`);
	const openPorts = (text: string) =>
		[...text.matchAll(/host_ip: (.*)/g)].filter(([, address]) => address !== '127.0.0.1');

	test.each(['', '--profile crm', '--profile backup', '--profile monitoring', '--profile operator'])(
		'without .env opens no port to other machines (%s)',
		(profile) => {
			const { status, stdout } = config(`${withoutEnv} ${main} ${profile}`);
			expect([status, openPorts(stdout)]).toEqual([0, []]);
			expect(stdout).toContain('host_ip: 127.0.0.1');
		},
	);

	test('reads each value of .env as operations/with-env.sh does', async () => {
		const { text, values } = await acceptedLines();
		const folder = await temporaryFolder();
		writeFileSync(join(folder, 'some.env'), text);
		const environment = Object.fromEntries(Object.keys(values).map((name) => [name, `\${${name}}`]));
		writeFileSync(join(folder, 'some.yml'), JSON.stringify({ services: { some: { image: 'some', environment } } }));
		const printed = here.sh(`cd '${folder}'; docker compose --env-file some.env --file some.yml config --format json`);
		const { services } = JSON.parse(printed) as { services: { some: { environment: Record<string, string> } } };
		// What is printed could be read again, with "$$" for "$".
		const read = Object.entries(services.some.environment).map(([name, value]) => [name, value.replaceAll('$$', '$')]);
		expect(Object.fromEntries(read)).toEqual(values);
	});

	test('has no default password with the .env of new-env.sh', () => {
		const { status, stdout } = config("--profile '*'");
		expect([status, openPorts(stdout)]).toEqual([0, []]);
		expect(stdout).not.toContain('local-only');
	});

	test.each([
		['TLS', tls],
		['the bot’s address', `${bot}`],
	])('opens a port with %s, and refuses default passwords then', (_, file) => {
		const address = 'BOT_GATEWAY_ADDRESS=10.0.0.1';
		const refused = here.try(`${address} docker compose ${withoutEnv} ${main} ${file} config`);
		expect(refused.status).not.toBe(0);
		expect(refused.stderr).toMatch(/required variable \w+_PASSWORD/);
		const { status, stdout } = here.try(`${address} docker compose ${main} ${file} --profile '*' config`);
		expect([status, openPorts(stdout).length]).toEqual([0, 1]);
		expect(stdout).not.toContain('local-only');
	});
});
