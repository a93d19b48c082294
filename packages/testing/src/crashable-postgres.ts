import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import { migrate } from '@contacts/common/database/migrate.js';
import { type RoleUser, roles, setRolePasswords, urlAs } from '@contacts/common/database/roles.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/server.js';
import postgres from 'postgres';
import { rolePassword } from './database.js';

/** A PostgreSQL of a test's own, which keeps what it has committed, and which may be crashed. */
export interface CrashablePostgres {
	/** The migrated database, as the service's role. It changes with each restart: the port is another one. */
	urlAs(user: RoleUser): string;
	/** Does this as the superuser, on a connection of its own. */
	asSuperuser<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
	/** Ends the backends of a role, as an administrator would. */
	terminateBackends(user: RoleUser): Promise<void>;
	/** Kills one backend of a role; PostgreSQL then ends all others, and recovers. */
	crashBackend(user: RoleUser): Promise<void>;
	/** The immediate stop, without a checkpoint or a word to the clients; gives when everything of the server is gone. */
	crash(): Promise<void>;
	restart(): Promise<void>;
	/** Gives when the server has recovered and answers. */
	answers(): Promise<void>;
	remove(): Promise<void>;
}

export async function startCrashablePostgres(): Promise<CrashablePostgres> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-crash-'));
	const dataDirectory = join(folder, 'postgres');
	// Connections that a black hole has swallowed stay with the server for as long as the test runs.
	const start = () => startLocalPostgres({ dataDirectory, password: 'test', settings: { max_connections: '400' } });
	let server: LocalPostgres = await start();

	async function asSuperuser<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
		const sql = postgres(server.url('postgres'), { max: 1, fetch_types: false, onnotice: () => undefined });
		try {
			return await work(sql);
		} finally {
			await sql.end({ timeout: 5 });
		}
	}
	const url = server.url('postgres');
	await migrate(url);
	await setRolePasswords(url, { 'personal-contacts': rolePassword });

	return {
		urlAs: (user) => urlAs(server.url('postgres'), user, rolePassword),
		asSuperuser,
		async terminateBackends(user) {
			await asSuperuser(
				(sql) => sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${roles[user]}`,
			);
		},
		async crashBackend(user) {
			const [backend] = await asSuperuser(
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
		async answers() {
			const until = performance.now() + 30_000;
			for (;;) {
				try {
					await asSuperuser((sql) => sql`select 1`);
					return;
				} catch (error) {
					if (performance.now() > until) throw error;
				}
			}
		},
		async remove() {
			await server.stop();
			rmSync(folder, { recursive: true, force: true });
		},
	};
}
