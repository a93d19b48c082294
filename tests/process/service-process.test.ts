import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect, createServer } from 'node:net';
import { json } from 'node:stream/consumers';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { revokeKey } from '@contacts/common/auth/projects.sql.js';
import { addProject } from '@contacts/testing/app.js';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { startServiceProcess } from '@contacts/testing/service-process.js';
import type { ServiceProcess } from '@contacts/testing/services.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';

const password = 'canary-password-61c9';
let empty: TestDatabase;
/** The test database, with a password that the last test searches for in all output. */
let url: string;
const written: string[] = [];

test.beforeAll(async () => {
	empty = await createTestDatabase('template0');
	const role = new URL(db.url).pathname.slice(1);
	await db.sql.unsafe(`create role ${role} superuser login password '${password}'`);
	url = Object.assign(new URL(db.url), { username: role, password }).href;
	await addProject(db.sql, 'good', 'good-key');
});
afterAll(async () => {
	await db?.sql.unsafe(`drop role ${new URL(db.url).pathname.slice(1)}`);
	await empty?.drop();
});

const change = (part: Partial<URL>) => Object.assign(new URL(url), part).href;

function start(name: ServiceName, environment: Record<string, string> = {}): ServiceProcess {
	const service = startServiceProcess(name, { DATABASE_URL: url, ...environment });
	onTestFinished(() => void written.push(service.output()));
	return service;
}

describe.each<[ServiceName, string, string]>([
	['personal-contacts', 'POST', '/api/personal_contacts'],
	['company-contacts', 'GET', '/api/company_contacts.list'],
])('%s', (name, method, path) => {
	/** Starts a service that must exit with 1 before it listens. @returns its standard error */
	async function refused(environment: Record<string, string>): Promise<string[]> {
		const service = start(name, environment);
		expect(await service.exit).toBe(1);
		expect(service.log().filter(({ msg }) => msg.startsWith('Server listening'))).toEqual([]);
		expect(service.stderr()).toMatch(/\n$/);
		return service.stderr().trimEnd().split('\n');
	}

	describe('does not start, and says why', () => {
		test('in one line for each variable that is wrong', async () => {
			const lines = await refused({ DATABASE_URL: '', PORT: password, LOG_LEVEL: password, DATABASE_POOL_SIZE: '0' });
			expect(lines.toSorted()).toEqual([
				'DATABASE_POOL_SIZE is wrong: it must be an integer from 1 to 500.',
				expect.stringMatching(/^DATABASE_URL is not set: it must be a URL like /),
				expect.stringMatching(/^LOG_LEVEL is wrong: it must be one of /),
				'PORT is wrong: it must be an integer from 0 to 65535.',
			]);
		});

		test.each<[string, () => string, RegExp]>([
			['a wrong password', () => change({ password: `${password}-wrong` }), /refuses the user or the password/],
			['a missing database', () => change({ pathname: '/no_such_database' }), /database .* does not exist/],
			['a database without tables', () => empty.url, /no tables yet: run "contacts migrate"/],
		])('in one line for %s', async (_, wrong, line) => {
			expect(await refused({ DATABASE_URL: wrong() })).toEqual([expect.stringMatching(line)]);
		});

		test('in one line for a port that is in use', async () => {
			const other = createServer().listen(0, '127.0.0.1');
			onTestFinished(() => void other.close());
			await once(other, 'listening');
			const { port } = other.address() as { port: number };
			expect(await refused({ PORT: String(port) })).toEqual([expect.stringMatching(/port is in use .* set PORT/)]);
		});
	});

	test('starts without the database, live but not ready, and serves as soon as the database is up', async () => {
		const proxy = await startTcpProxy(url);
		onTestFinished(() => proxy.close());
		proxy.cut();
		const service = start(name, { DATABASE_URL: proxy.through(url) });
		const address = await service.listening();
		const status = async (path: string, init: RequestInit = {}) => (await fetch(address + path, init)).status;
		const guess = () => status(`${path}?project=good&api_key=wrong`, { method });
		expect(await status('/health/live')).toBe(200);
		expect(await status('/health/ready')).toBe(503);
		// Without the database it cannot tell a right key from a wrong one.
		expect(await guess()).toBe(500);
		await expect.poll(() => service.log().map(({ msg }) => msg)).toContain('keys could not be read');

		await proxy.restore();
		await expect.poll(() => status('/health/ready'), { timeout: 3000 }).toBe(200);
		await expect.poll(guess, { timeout: 3000 }).toBe(401);
		await expect.poll(() => service.log().map(({ msg }) => msg)).toContain('keys are current again');
	});

	test('SIGINT stops it, with exit 0', async () => {
		const service = start(name);
		await service.listening();
		service.kill('SIGINT');
		expect(await service.exit).toBe(0);
		expect(service.stderr()).toBe('');
	});
});

describe('a stop during a request', () => {
	let service: ServiceProcess;
	let address: string;
	let answer: Promise<Response | Error>;
	let release: () => Promise<void>;

	const upsert = (project: string, body: string) =>
		fetch(`${address}/api/personal_contacts?project=${project}&api_key=${project}-key`, {
			method: 'POST',
			headers: { 'content-type': 'application/json' },
			body,
		});

	/** Starts a service whose only request waits for a lock that this test holds. */
	async function hold(environment: Record<string, string> = {}): Promise<void> {
		service = start('personal-contacts', environment);
		address = await service.listening();
		const session = await db.sql.reserve();
		await session`begin`;
		await session`lock table personal_contacts in access exclusive mode`;
		let held = true;
		release = async () => {
			if (!held) return;
			held = false;
			await session`rollback`;
			session.release();
		};
		onTestFinished(() => release());
		answer = upsert('good', '{"chat_id":1}').catch((error: Error) => error);
		await expect
			.poll(() => db.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
			.toHaveLength(1);
	}
	const stopping = () => expect.poll(() => service.log().map(({ msg }) => msg)).toContain('stopping');

	test('SIGTERM lets the request finish, refuses new connections meanwhile, and ends the process with exit 0', async () => {
		await hold();
		service.kill('SIGTERM');
		await expect.poll(() => errorOfConnecting(address)).toBe('ECONNREFUSED');
		expect(service.hasExited).toBe(false);
		await release();
		expect(await answer).toMatchObject({ status: 200 });
		expect(await service.exit).toBe(0);
		expect(service.log().map(({ msg }) => msg)).toContain('stopped');
		expect(service.stderr()).toBe('');
	});

	test('SIGTERM lets a client read a long response to its end, however slowly', async () => {
		await db.sql`
			insert into company_contacts (bitrix_id, perplexity_reason)
			select id, repeat('x', 1000) from generate_series(1, 30000) as id`;
		service = start('company-contacts');
		address = await service.listening();
		// This client keeps its connection open for as long as the service allows.
		const agent = new Agent({ keepAlive: true });
		onTestFinished(() => agent.destroy());
		const list = async () => {
			const reading = get(`${address}/api/company_contacts.list?project=good&api_key=good-key`, { agent });
			const [message] = (await once(reading, 'response')) as [IncomingMessage];
			// On a busy machine a service may shed load right after its start.
			return message.statusCode === 200 ? message : void message.resume();
		};
		// The client has not read any of the body yet.
		const message = await waitUntil(list, { timeoutMs: 30_000 });
		service.kill('SIGTERM');
		await expect.poll(() => errorOfConnecting(address)).toBe('ECONNREFUSED');
		const { count, data } = (await json(message)) as { count: number; data: unknown[] };
		expect([count, data.length]).toEqual([30_000, 30_000]);
		expect(await service.exit).toBe(0);
	});

	test('a second SIGTERM ends the process at once, with exit 1', async () => {
		// With the default timeout it would exit with 0 once the statement expires.
		await hold({ SHUTDOWN_TIMEOUT_SECONDS: '300' });
		service.kill('SIGTERM');
		await stopping();
		service.kill('SIGTERM');
		expect(await service.exit).toBe(1);
		expect(await answer).toBeInstanceOf(Error);
	});

	test('SHUTDOWN_TIMEOUT_SECONDS ends the process, with exit 1', async () => {
		await hold({ SHUTDOWN_TIMEOUT_SECONDS: '1' });
		const begun = performance.now();
		service.kill('SIGTERM');
		expect(await service.exit).toBe(1);
		// Not at once, and not only when the statement expires: that would send a response.
		expect(performance.now() - begun).toBeGreaterThan(900);
		expect(await answer).toBeInstanceOf(Error);
	});

	test('a service stops as on SIGTERM when the IPC channel to its parent process closes', async () => {
		await hold();
		service.disconnect();
		await stopping();
		await release();
		expect(await answer).toMatchObject({ status: 200 });
		expect(await service.exit).toBe(0);
	});

	test('a key that is revoked is refused while requests hold every connection', async () => {
		await addProject(db.sql, 'other', 'other-key');
		await hold({ DATABASE_POOL_SIZE: '1' });
		const status = async () => (await upsert('other', '{}')).status;
		expect(await status()).toBe(400);
		const [key] = await db.sql<{ id: number }[]>`select id::float8 as id from api_keys order by id desc limit 1`;
		await revokeKey(db.sql, key?.id ?? Number.NaN);
		let answered = false;
		void answer.then(() => {
			answered = true;
		});
		const begun = performance.now();
		await expect.poll(status, { interval: 10 }).toBe(401);
		console.info(`the revoked key was refused after ${Math.round(performance.now() - begun)} ms`);
		// The request that holds the only connection times out after some four seconds.
		expect(answered).toBe(false);
	});
});

test('no process writes the password of DATABASE_URL to its output', () => {
	expect(written.length).toBeGreaterThan(15);
	expect(written.join('\n')).not.toContain('canary');
});

function errorOfConnecting(address: string): Promise<string | undefined> {
	return new Promise((resolve) => {
		const socket = connect({ port: Number(new URL(address).port), host: '127.0.0.1' });
		socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code));
		socket.on('connect', () => resolve(undefined)).on('connect', () => socket.destroy());
	});
}
