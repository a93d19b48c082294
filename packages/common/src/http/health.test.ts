import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { openKeyRing } from '../auth/key-ring.js';
import { watchedKeys } from '../auth/key-ring.sql.js';
import { openDatabase } from '../database/database.js';
import { openStatePoll } from '../database/state-poll.js';
import { createLogger } from '../observability/logger.js';
import { health } from './health.js';
import { createServer } from './server.js';

const clock = () => performance.now();

/** The status of `GET /health/ready` of a process on this database. */
async function startReadiness(
	writes: boolean,
	poll = openStatePoll({ clock, url: db.url, applicationName: 'health', watched: [] }),
): Promise<() => Promise<number>> {
	const server = await createServer({ logger: createLogger({ name: 'health', level: 'silent' }) });
	await server.register(health, { poll, writes });
	onTestFinished(async () => {
		await server.close();
		await poll.close();
	});
	return async () => (await server.inject('/health/ready')).statusCode;
}

/** Makes new connections read-only, like those to a standby. */
async function makeReadOnly(on: boolean): Promise<void> {
	const name = new URL(db.url).pathname.slice(1);
	await db.sql.unsafe(`alter database ${name} set default_transaction_read_only = ${on}`);
}

test('a process that writes is not ready on a read-only database, and the check replaces its connection', async () => {
	await makeReadOnly(true);
	onTestFinished(() => makeReadOnly(false));
	const ready = await startReadiness(true);
	expect(await ready()).toBe(503);
	expect(await ready()).toBe(503);
	await makeReadOnly(false);
	await expect.poll(ready).toBe(200);
});

test('a process that only reads is ready on a read-only database', async () => {
	await makeReadOnly(true);
	onTestFinished(() => makeReadOnly(false));
	expect(await (await startReadiness(false))()).toBe(200);
});

test('a process that authenticates is not ready until its keys were loaded, although the database responds', async () => {
	const proxy = await startTcpProxy(db.url);
	proxy.cut();
	const keys = openDatabase({ clock, url: proxy.through(db.url), applicationName: 'keys', poolSize: 1 });
	const poll = openStatePoll({ clock, url: proxy.through(db.url), applicationName: 'keys', watched: [watchedKeys] });
	const keyRing = await openKeyRing({ poll, database: keys, service: 'company-contacts' });
	onTestFinished(async () => {
		await keyRing.stop();
		await keys.close();
		await proxy.close();
	});
	const ready = await startReadiness(false, poll);
	expect(await ready()).toBe(503);
	await proxy.restore();
	await expect.poll(ready).toBe(200);
	expect(keyRing.find('nobody', 'no-key')).toBeUndefined();
});
