import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { json, text } from 'node:stream/consumers';
import { addProject } from '@contacts/testing/app.js';
import type { ServiceProcess } from '@contacts/testing/services.js';
import { database as db, test } from '@contacts/testing/test.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { describe, expect, onTestFinished } from 'vitest';
import { startServiceProcess } from '../services.js';

test.beforeAll(() => addProject(db.sql, 'good', 'good-key'));

describe('a stop during a request', () => {
	let service: ServiceProcess;
	let address: string;
	let response: Promise<Response | Error>;
	let release: () => Promise<void>;

	/** Starts a service whose only request waits for a lock that this test holds. */
	async function hold(environment: Record<string, string> = {}): Promise<void> {
		service = startServiceProcess('personal-contacts', environment);
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
		response = fetch(`${address}/api/personal_contacts?project=good&api_key=good-key`, {
			method: 'POST',
			headers: { 'content-type': 'application/json' },
			body: '{"chat_id":1}',
		}).catch((error: Error) => error);
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
		expect(await response).toMatchObject({ status: 200 });
		expect(await service.exit).toBe(0);
		expect(service.log().map(({ msg }) => msg)).toContain('stopped');
		expect(service.stderr()).toBe('');
	});

	const body = '{"chat_id":2}';
	const head = `POST /api/personal_contacts?project=good&api_key=good-key HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
	test.each([
		['half a body', `${head}${body.slice(0, 5)}`, body.slice(5)],
		['half a header', head.slice(0, 40), `${head.slice(40)}${body}`],
	])('SIGTERM after %s: the service still reads the rest, stores it and responds', async (_, sent, rest) => {
		await db.sql`delete from personal_contacts`;
		service = startServiceProcess('personal-contacts');
		const { port } = new URL(await service.listening());
		const socket = connect({ port: Number(port), host: '127.0.0.1' });
		socket.write(sent);
		// A response to a later request shows that these bytes have reached the service.
		await fetch(`http://127.0.0.1:${port}/health/live`);
		service.kill('SIGTERM');
		await stopping();
		socket.write(rest);
		expect(await text(socket)).toMatch(/^HTTP\/1.1 200 .*\r\nconnection: close\r\n.*\{"ok":"saved"\}$/is);
		expect(await service.exit).toBe(0);
		expect(await db.sql`select chat_id::int from personal_contacts`).toEqual([{ chat_id: 2 }]);
	});

	test('SIGTERM lets a client read a long response to its end, however slowly', async () => {
		await db.sql`
			insert into company_contacts (bitrix_id, perplexity_reason)
			select id, repeat('x', 1000) from generate_series(1, 30000) as id`;
		service = startServiceProcess('company-contacts');
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
		expect(await response).toBeInstanceOf(Error);
	});

	test('SHUTDOWN_TIMEOUT_SECONDS ends the process, with exit 1', async () => {
		await hold({ SHUTDOWN_TIMEOUT_SECONDS: '1' });
		const begun = performance.now();
		service.kill('SIGTERM');
		expect(await service.exit).toBe(1);
		// Not at once, and not only when the statement expires: that would send a response.
		expect(performance.now() - begun).toBeGreaterThan(900);
		expect(await response).toBeInstanceOf(Error);
	});

	test('a service stops as on SIGTERM when the IPC channel to its parent process closes', async () => {
		await hold();
		service.disconnect();
		await stopping();
		await release();
		expect(await response).toMatchObject({ status: 200 });
		expect(await service.exit).toBe(0);
	});

	test('a service whose parent process ends while it starts stops too', async () => {
		service = startServiceProcess('personal-contacts');
		service.disconnect();
		expect(await service.exit).toBe(0);
	});
});

function errorOfConnecting(address: string): Promise<string | undefined> {
	return new Promise((resolve) => {
		const socket = connect({ port: Number(new URL(address).port), host: '127.0.0.1' });
		socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code));
		socket.on('connect', () => resolve(undefined)).on('connect', () => socket.destroy());
	});
}
