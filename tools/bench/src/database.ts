import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { childrenOf, cpuSecondsOf } from '@contacts/testing/proc.js';
import postgres, { type Sql } from 'postgres';
import { contacts } from './scenarios.js';

/** A separate PostgreSQL for the services of one checkout, in a temporary folder. */
export interface BenchDatabase {
	/** A superuser's connection. */
	sql: Sql;
	/** Connection URLs with the roles of the services. */
	personalUrl: string;
	companyUrl: string;
	/** The query string with project and key. */
	credentials: string;
	/** Seconds of a core that all processes of PostgreSQL have used. NaN if the system does not report it. */
	cpuSeconds(): number;
}

const password = 'bench';

/**
 * Another checkout may have another schema and other roles. So its database is set up as its operators do it, by its `contacts`.
 *
 * @param slowerCommitMs milliseconds by which the server delays each flush of its log, as a slower disk would
 */
export async function startDatabase(
	checkout: string,
	slowerCommitMs: number,
	cleanup: (() => unknown)[],
	signal: AbortSignal,
): Promise<BenchDatabase> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-bench-'));
	cleanup.push(() => rmSync(folder, { recursive: true, force: true }));
	const dataDirectory = join(folder, 'postgres');
	const server = await startLocalPostgres({ dataDirectory, password });
	cleanup.push(() => server.stop());
	const pid = Number(readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8').split('\n')[0]);

	// A lock that nobody releases ends the run with an error.
	const sql = postgres(server.url('postgres'), { max: 1, connection: { statement_timeout: 60_000 } });
	cleanup.push(() => sql.end({ timeout: 5 }));
	await sql.unsafe(`alter system set commit_delay = ${Math.round(slowerCommitMs * 1000)}`);
	await sql`alter system set commit_siblings = 0`;
	await sql`select pg_reload_conf()`;
	const logIn = async (role: string) => {
		await sql.unsafe(`alter role ${role} login password '${password}'`);
		return `postgres://${role}:${password}@127.0.0.1:${server.port}/postgres`;
	};

	await contactsCommand(checkout, server.url('postgres'), signal)('migrate', '--roles');
	const run = contactsCommand(checkout, await logIn('contacts_owner'), signal);
	await run('project', 'create', 'bench');
	const { key } = JSON.parse(await run('key', 'create', 'bench', '--json')) as { key: string };
	const file = join(folder, 'contacts.ndjson');
	const lines = contacts().map((contact) => `${JSON.stringify(contact)}\n`);
	writeFileSync(file, lines.join(''));
	await run('import', file);
	return {
		sql,
		personalUrl: await logIn('personal_contacts_service'),
		companyUrl: await logIn('company_contacts_service'),
		credentials: `project=bench&api_key=${key}`,
		cpuSeconds: () => [pid, ...childrenOf(pid)].reduce((sum, id) => sum + cpuSecondsOf(id), 0),
	};
}

/** Runs the built command `contacts` of a checkout. The script of this name ends with the command's folder. */
function contactsCommand(checkout: string, databaseUrl: string, signal: AbortSignal) {
	const program = join(checkout, 'tools/cli/dist/main.js');
	const options = { cwd: checkout, env: { ...process.env, DATABASE_URL: databaseUrl }, signal, timeout: 120_000 };
	return async (...args: string[]): Promise<string> =>
		(await promisify(execFile)(process.execPath, [program, ...args], options)).stdout;
}
