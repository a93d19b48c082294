import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { urlAs } from '@contacts/common/database/roles.js';
import { createTestDatabase, rolePassword } from '@contacts/testing/database.js';
import { memoryOf } from '@contacts/testing/proc.js';
import { spawnService } from '@contacts/testing/services.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';

const start = (env: Record<string, string>) => {
	const program = spawnService('crm-sync', {
		DATABASE_URL: urlAs(database.url, 'crm-sync', rolePassword),
		// Nothing listens there: the synchroniser starts without the portal.
		BITRIX24_WEBHOOK_URL: 'http://127.0.0.1:9/rest/1/secret/',
		...env,
	});
	onTestFinished(() => program.kill('SIGKILL'));
	return program;
};

describe('the synchroniser does not start, and says why in one line', () => {
	async function errorOf(env: Record<string, string>): Promise<string[]> {
		const program = start(env);
		expect(await program.exit).toBe(1);
		return program.stderr().trimEnd().split('\n');
	}

	test('with a wrong password', async () => {
		const url = urlAs(database.url, 'crm-sync', 'wrong');
		expect(await errorOf({ DATABASE_URL: url })).toEqual([expect.stringMatching(/refuses the user or the password/)]);
	});

	test('with a database without tables', async () => {
		const empty = await createTestDatabase('template0');
		onTestFinished(() => empty.drop());
		expect(await errorOf({ DATABASE_URL: empty.url })).toEqual([expect.stringMatching(/no tables yet: run/)]);
	});

	test('with a database in another encoding than UTF-8', async () => {
		const ascii = await createTestDatabase('template0', 'SQL_ASCII');
		onTestFinished(() => ascii.drop());
		expect(await errorOf({ DATABASE_URL: ascii.url })).toEqual([expect.stringMatching(/encoding SQL_ASCII/)]);
	});

	test('on a port that is in use', async () => {
		const other = createServer().listen(0, '127.0.0.1');
		onTestFinished(() => void other.close());
		await once(other, 'listening');
		const { port } = other.address() as { port: number };
		expect(await errorOf({ PORT: String(port) })).toEqual([expect.stringMatching(/port is in use .* set PORT/)]);
	});

	test('with an invalid webhook, interval and country: one line for each', async () => {
		const webhook = 'https://portal.example/';
		expect(await errorOf({ BITRIX24_WEBHOOK_URL: webhook })).toEqual([
			expect.stringMatching(/^BITRIX24_WEBHOOK_URL is wrong: /),
		]);
		const lines = await errorOf({
			BITRIX24_WEBHOOK_URL: webhook,
			BITRIX24_INTERVAL_SECONDS: '5m',
			BITRIX24_DEFAULT_COUNTRY: 'ZZ',
		});
		expect(lines.map((line) => line.split(' is wrong: ')[0]).sort()).toEqual([
			'BITRIX24_DEFAULT_COUNTRY',
			'BITRIX24_INTERVAL_SECONDS',
			'BITRIX24_WEBHOOK_URL',
		]);
	});
});

test('the synchroniser starts without its database, works once the database is up, and stops on SIGTERM with exit 0', async () => {
	const url = urlAs(database.url, 'crm-sync', rolePassword);
	const proxy = await startTcpProxy(url);
	onTestFinished(() => proxy.close());
	proxy.cut();
	const program = start({ DATABASE_URL: proxy.through(url) });
	const address = await program.listening();
	const metric = async () =>
		/^crm_synchroniser_working (\d)$/m.exec(await (await fetch(`${address}/metrics`)).text())?.[1];
	expect(await metric()).toBe('0');
	await proxy.restore();
	await expect.poll(metric, { timeout: 30_000 }).toBe('1');
	program.kill('SIGTERM');
	expect(await program.exit).toBe(0);
	expect(program.stderr()).toBe('');
	expect(program.log().at(-1)?.msg).toBe('stopped');
});

describe('the synchroniser ends with one line and exit 1', () => {
	async function startWorking() {
		const url = urlAs(database.url, 'crm-sync', rolePassword);
		const proxy = await startTcpProxy(url);
		onTestFinished(() => proxy.close());
		const program = start({ DATABASE_URL: proxy.through(url) });
		const address = await program.listening();
		const metric = async () =>
			/^crm_synchroniser_working (\d)$/m.exec(await (await fetch(`${address}/metrics`)).text())?.[1];
		await expect.poll(metric, { timeout: 30_000 }).toBe('1');
		return { program, proxy };
	}

	test('when its session is lost, and with it the lock', async () => {
		const { program } = await startWorking();
		await database.sql`
			select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid)
			where locktype = 'advisory' and application_name = 'crm-sync' and datname = current_database()`;
		expect(await program.exit).toBe(1);
		expect(program.stderr()).toMatch(/^The synchroniser ends, to be started again: [^\n]*lost\.\n$/);
	});

	test('when the database does not respond any more', async () => {
		const { program, proxy } = await startWorking();
		proxy.holdBack();
		expect(await program.exit).toBe(1);
		expect(program.stderr()).toMatch(/^The synchroniser ends, to be started again: [^\n]+\.\n$/);
	});
});

test('on a read-only server it waits, and does not end', async () => {
	const mine = await createTestDatabase();
	onTestFinished(() => mine.drop());
	const name = new URL(mine.url).pathname.slice(1);
	await mine.sql.unsafe(`alter database ${name} set default_transaction_read_only = on`);
	const program = start({ DATABASE_URL: urlAs(mine.url, 'crm-sync', rolePassword) });
	onTestFinished(() => program.kill('SIGKILL'));
	const pauses = () =>
		program
			.log()
			.flatMap(({ retry_ms: pause }) => pause ?? [])
			.slice(0, 3);
	await expect.poll(pauses, { timeout: 30_000 }).toEqual([1000, 2000, 4000]);
	expect(program.hasExited).toBe(false);
	program.kill('SIGKILL');
	await program.exit;
});

test('a portal that sends 30 MB of nested arrays does not make the synchroniser exceed its memory limit of 384 MiB', async () => {
	const nested = Buffer.alloc(30_000_000, '[');
	const portal = createHttpServer((_, response) => response.end(nested)).listen(0, '127.0.0.1');
	onTestFinished(() => {
		portal.closeAllConnections();
		portal.close();
	});
	await once(portal, 'listening');
	const { port } = portal.address() as { port: number };
	const program = start({ BITRIX24_WEBHOOK_URL: `http://127.0.0.1:${port}/rest/1/secret/` });
	await expect.poll(() => program.log().filter(({ kind }) => kind === 'retry').length).toBeGreaterThan(1);
	expect(program.hasExited).toBe(false);
	expect(memoryOf(program.pid)?.peak).toBeLessThan(384);
});
