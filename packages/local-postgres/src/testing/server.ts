import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@contacts/common/database/client.js';
import { type LocalPostgres, type LocalPostgresOptions, startLocalPostgres } from '@contacts/local-postgres/server.js';
import { onTestFinished } from 'vitest';

export const serverPid = (dataDirectory: string) =>
	Number(readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8').split('\n')[0]);

/** No data of these tests has to survive a crash of the machine. */
export const settings = { fsync: 'off' };

export async function start(
	dataDirectory: string,
	options: Partial<LocalPostgresOptions> = {},
): Promise<LocalPostgres> {
	const server = await startLocalPostgres({ dataDirectory, password: 'test', settings, ...options });
	onTestFinished(() => server.stop());
	return server;
}

export async function query(server: LocalPostgres, statement: string): Promise<Record<string, unknown>[]> {
	const sql = createClient({ url: server.url('postgres'), applicationName: 'test', poolSize: 1 });
	try {
		return [...(await sql.unsafe(statement))];
	} finally {
		await sql.end({ timeout: 5 });
	}
}
