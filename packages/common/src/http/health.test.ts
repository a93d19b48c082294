import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { openDatabase } from '../database/database.js';
import { createLogger } from '../observability/logger.js';
import { health } from './health.js';
import { createServer } from './server.js';

/** The status of `GET /health/ready` of a process on this database. */
async function startReadiness(writes: boolean): Promise<() => Promise<number>> {
	const database = openDatabase({ url: db.url, applicationName: 'health', poolSize: 3 });
	const server = await createServer({ logger: createLogger({ name: 'health', level: 'silent' }) });
	await server.register(health, { database, writes });
	onTestFinished(async () => {
		await server.close();
		await database.close();
	});
	return async () => (await server.inject('/health/ready')).statusCode;
}

/** Makes new connections read-only, like those to a standby. */
async function makeReadOnly(on: boolean): Promise<void> {
	const name = new URL(db.url).pathname.slice(1);
	await db.sql.unsafe(`alter database ${name} set default_transaction_read_only = ${on}`);
}

test('a process that writes is not ready on a read-only database, and the check replaces its connections', async () => {
	await makeReadOnly(true);
	onTestFinished(() => makeReadOnly(false));
	const ready = await startReadiness(true);
	expect(await ready()).toBe(503);
	expect(await ready()).toBe(503);
	await makeReadOnly(false);
	expect(await ready()).toBe(200);
});

test('a process that only reads is ready on a read-only database', async () => {
	await makeReadOnly(true);
	onTestFinished(() => makeReadOnly(false));
	expect(await (await startReadiness(false))()).toBe(200);
});
