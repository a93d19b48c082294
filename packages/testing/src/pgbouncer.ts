import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accepts, freePort } from '@contacts/local-postgres/ports.js';
import { startProcess } from './process.js';
import { waitUntil } from './wait-until.js';

export interface PgBouncer {
	/** The same URL, but through PgBouncer. */
	through(url: string): string;
	stop(): Promise<void>;
}

/** PgBouncer in transaction mode, as in docs/deploy.md, for the server of the first URL and the users of all. */
export async function startPgBouncer(...urls: string[]): Promise<PgBouncer> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-pgbouncer-'));
	chmodSync(folder, 0o755);
	const port = await freePort();
	const { hostname, port: serverPort } = new URL(String(urls[0]));
	const users = urls.map((url) => new URL(url)).map(({ username, password }) => `"${username}" "${password}"\n`);
	writeFileSync(join(folder, 'users.txt'), users.join(''));
	writeFileSync(
		join(folder, 'pgbouncer.ini'),
		`[databases]
* = host=${hostname} port=${serverPort}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(folder, 'users.txt')}
pool_mode = transaction
max_client_conn = 500
default_pool_size = 60
ignore_startup_parameters = statement_timeout
server_login_retry = 1
`,
	);
	// PgBouncer refuses to run as root.
	const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
	const pgbouncer = startProcess('pgbouncer', [...user, join(folder, 'pgbouncer.ini')]);
	await waitUntil(() => accepts(port), { timeoutMs: 10_000, message: pgbouncer.output });
	return {
		through: (target) => Object.assign(new URL(target), { hostname: '127.0.0.1', port: String(port) }).href,
		async stop() {
			await pgbouncer.stop();
			rmSync(folder, { recursive: true, force: true });
		},
	};
}
