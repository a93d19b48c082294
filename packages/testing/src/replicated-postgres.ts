import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { vi } from 'vitest';
import { withConnection } from './database.js';
import { createRoles } from './roles.js';

/** A primary and a standby that replicates it synchronously: a commit returns when both have it. */
export interface ReplicatedPostgres {
	/** The superuser's URL of the migrated database on each server. The primary's URL gets another port when it is demoted. */
	primaryUrl(): string;
	standbyUrl(): string;
	/** Runs this as the superuser, on a separate connection. */
	asSuperuser<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T>;
	/** Promotes the standby to a primary. The old primary stays unchanged. */
	promoteStandby(): Promise<void>;
	/** Restarts the old primary as a standby: it accepts connections, and is read-only. */
	demotePrimary(): Promise<void>;
	remove(): Promise<void>;
}

export async function startReplicatedPostgres(): Promise<ReplicatedPostgres> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-replicated-'));
	const folderOf = (name: string) => join(folder, name);
	// Connections that an unresponsive network has dropped stay open on the server for the whole test.
	const start = (name: string, settings: Record<string, string> = {}) =>
		startLocalPostgres({
			dataDirectory: folderOf(name),
			password: 'test',
			settings: { max_connections: '200', ...settings },
		});

	let primary = await start('primary');
	await createRoles(primary.url('postgres'));
	await migrate(primary.url('postgres'));
	// The data directory of a cleanly stopped server is a base backup.
	await primary.stop();
	execFileSync('cp', ['-a', folderOf('primary'), folderOf('standby')]);
	beStandby(folderOf('standby'));
	primary = await start('primary', { synchronous_standby_names: 'standby' });
	const standby: LocalPostgres = await start('standby', {
		primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres password=test application_name=standby`,
	});
	await vi.waitUntil(
		() =>
			withConnection(primary.url('postgres'), async (sql) => {
				const rows = await sql`select from pg_stat_replication where sync_state = 'sync'`;
				return rows.length > 0;
			}),
		{ timeout: 20_000 },
	);

	return {
		primaryUrl: () => primary.url('postgres'),
		standbyUrl: () => standby.url('postgres'),
		asSuperuser: withConnection,
		async promoteStandby() {
			await withConnection(standby.url('postgres'), (sql) => sql`select pg_promote()`);
		},
		async demotePrimary() {
			await primary.stop();
			beStandby(folderOf('primary'));
			primary = await start('primary');
		},
		async remove() {
			await Promise.all([primary.stop(), standby.stop()]);
			rmSync(folder, { recursive: true, force: true });
		},
	};
}

/** Makes a server with this data directory a standby from its next start on. */
function beStandby(dataDirectory: string): void {
	const file = join(dataDirectory, 'standby.signal');
	writeFileSync(file, '');
	const { uid, gid } = statSync(dataDirectory);
	chownSync(file, uid, gid);
}
