import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import { freePort } from './ports.js';
import { waitUntil } from './wait-until.js';

export interface DebianPostgres {
	port: number;
	/** The superuser's connection URL of a database. */
	url(database: string): string;
	stop(): Promise<void>;
}

/**
 * Debian's PostgreSQL 15, which refuses to run as root. Its data is deleted when it stops.
 *
 * @param password the password of the superuser, `postgres`
 */
export async function startDebianPostgres(password: string): Promise<DebianPostgres> {
	const programs = '/usr/lib/postgresql/15/bin';
	const idOf = (option: string) => Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }));
	const user = process.getuid?.() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {};
	const folder = mkdtempSync(join(tmpdir(), 'contacts-postgres-'));
	const [data, passwordFile] = [join(folder, 'data'), join(folder, 'password')];
	writeFileSync(passwordFile, password);
	if (user.uid !== undefined) for (const path of [folder, passwordFile]) chownSync(path, user.uid, user.gid);
	execFileSync(
		`${programs}/initdb`,
		['--username=postgres', '--auth=scram-sha-256', `--pwfile=${passwordFile}`, data],
		{ ...user, cwd: '/', stdio: 'ignore' },
	);
	const port = await freePort();
	const settings = ['-p', String(port), '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='];
	const server = spawn(`${programs}/postgres`, ['-D', data, ...settings], { ...user, cwd: '/', stdio: 'ignore' });
	const ended = once(server, 'exit');
	const url = (database: string) => `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
	await waitUntil(() => accepts(url('postgres')), { timeoutMs: 20_000 });
	return {
		port,
		url,
		async stop() {
			server.kill('SIGINT');
			await ended;
			rmSync(folder, { recursive: true });
		},
	};
}

async function accepts(url: string): Promise<boolean> {
	const sql = postgres(url, { max: 1, fetch_types: false });
	try {
		await sql`select 1`;
		return true;
	} catch {
		return false;
	} finally {
		await sql.end({ timeout: 5 });
	}
}
