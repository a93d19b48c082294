import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { memoryOf } from '@contacts/testing/proc.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { startServiceProcess, urlFor } from '../services.js';

/** Nothing listens where its webhook leads: the synchroniser starts without the CRM. */
const start = (environment: Record<string, string>) =>
	startServiceProcess('crm-sync', { BITRIX24_WEBHOOK_URL: 'http://127.0.0.1:9/rest/1/secret/', ...environment });

test('the synchroniser does not start with an invalid webhook, interval, country and token: one line for each', async () => {
	const program = start({
		BITRIX24_WEBHOOK_URL: 'https://crm.example/',
		BITRIX24_INTERVAL_SECONDS: '5m',
		BITRIX24_DEFAULT_COUNTRY: 'ZZ',
		BITRIX24_APPLICATION_TOKEN: 'x'.repeat(31),
	});
	expect(await program.exit).toBe(1);
	const lines = program.stderr().trimEnd().split('\n');
	expect(lines.map((line) => line.split(' is wrong: ')[0]).sort()).toEqual([
		'BITRIX24_APPLICATION_TOKEN',
		'BITRIX24_DEFAULT_COUNTRY',
		'BITRIX24_INTERVAL_SECONDS',
		'BITRIX24_WEBHOOK_URL',
	]);
});

test('the synchroniser starts without its database, works once the database is up, and ends with one line when its session is lost, and with it the lock', async () => {
	const url = urlFor('crm-sync');
	const proxy = await startTcpProxy(url);
	onTestFinished(() => proxy.close());
	proxy.cut();
	const program = start({ DATABASE_URL: proxy.through(url) });
	const address = await program.listening();
	const metric = async () =>
		/^crm_synchroniser_working (\d)$/m.exec(await (await fetch(`${address}/metrics`)).text())?.[1];
	expect(await metric()).toBe('0');
	await proxy.restore();
	await expect.poll(metric, { timeout: 60_000 }).toBe('1');
	await database.sql`
		select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid)
		where locktype = 'advisory' and application_name = 'crm-sync' and datname = current_database()`;
	expect(await program.exit).toBe(1);
	expect(program.stderr()).toMatch(/^The synchroniser ends, to be started again: [^\n]*lost\.\n$/);
});

test('a CRM that sends 30 MB of nested arrays does not make the synchroniser exceed its memory limit of 384 MiB', async () => {
	const nested = Buffer.alloc(30_000_000, '[');
	const crm = createHttpServer((_, response) => response.end(nested)).listen(0, '127.0.0.1');
	onTestFinished(() => {
		crm.closeAllConnections();
		crm.close();
	});
	await once(crm, 'listening');
	const { port } = crm.address() as { port: number };
	const program = start({ BITRIX24_WEBHOOK_URL: `http://127.0.0.1:${port}/rest/1/secret/` });
	const refused = () => program.log().filter(({ kind, code }) => kind === 'stop' && code === 'response_too_large');
	await expect.poll(() => refused().length).toBeGreaterThan(0);
	expect(program.hasExited).toBe(false);
	expect(memoryOf(program.pid).peak).toBeLessThan(384);
});
