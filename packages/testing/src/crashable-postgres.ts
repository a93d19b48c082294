import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { type RoleUser, roles, urlAs } from '@contacts/migrations/roles.js';
import { vi } from 'vitest';
import { rolePassword, withConnection } from './database.js';
import { createRoles } from './roles.js';

/** A separate PostgreSQL for one test, with durable commits, which may be crashed. */
export interface CrashablePostgres {
	/** The URL of the migrated database with the service's role. It changes with each restart, which uses another port. */
	urlAs(user: RoleUser): string;
	/** Runs this as the superuser, on a separate connection. */
	asSuperuser<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
	/** Ends the backends of a role, as an administrator would. */
	terminateBackends(user: RoleUser): Promise<void>;
	/** Kills one backend of a role; PostgreSQL then ends all others, and recovers. */
	crashBackend(user: RoleUser): Promise<void>;
	/** An immediate shutdown, without a checkpoint or a message to clients. Resolves when all server processes have ended. */
	crash(): Promise<void>;
	restart(): Promise<void>;
	/** Resolves when the server has recovered and responds. */
	responds(): Promise<void>;
	remove(): Promise<void>;
}

export async function startCrashablePostgres(): Promise<CrashablePostgres> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-crash-'));
	const dataDirectory = join(folder, 'postgres');
	// Connections that an unresponsive network has dropped stay open on the server for the whole test.
	const start = () => startLocalPostgres({ dataDirectory, password: 'test', settings: { max_connections: '400' } });
	let server: LocalPostgres = await start();

	const inDatabase = <T>(work: (sql: Sql) => Promise<T>) => withConnection(server.url('postgres'), work);
	const url = server.url('postgres');
	await createRoles(url);
	await migrate(url);

	return {
		urlAs: (user) => urlAs(server.url('postgres'), user, rolePassword),
		asSuperuser: inDatabase,
		async terminateBackends(user) {
			await inDatabase(
				(sql) => sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${roles[user]}`,
			);
		},
		async crashBackend(user) {
			const [backend] = await inDatabase(
				(sql) => sql<{ pid: number }[]>`select pid from pg_stat_activity where usename = ${roles[user]} limit 1`,
			);
			if (backend === undefined) throw new Error(`${user} has no connection`);
			process.kill(backend.pid, 'SIGKILL');
		},
		async crash() {
			const [postmaster] = readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8').split('\n');
			process.kill(Number(postmaster), 'SIGQUIT');
			await server.ended;
		},
		async restart() {
			server = await start();
		},
		async responds() {
			await vi.waitFor(() => inDatabase((sql) => sql`select 1`), { timeout: 30_000, interval: 5 });
		},
		async remove() {
			await server.stop();
			rmSync(folder, { recursive: true, force: true });
		},
	};
}
