import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Lifetime } from '../lifetime.js';
import { findProgram, runProgram } from '../load/program.js';
import { singleStatement, singleStatementValues } from './single-statement.sql.js';

/** The path of pgbench, on the PATH or where Debian installs it. Undefined: it was not found. */
export function findPgbench(): string | undefined {
	const debian = '/usr/lib/postgresql';
	const versions = entriesOf(debian).sort((a, b) => Number(b) - Number(a));
	return findProgram(
		'pgbench',
		versions.map((version) => join(debian, version, 'bin')),
	);
}

interface PgbenchOrder {
	databaseUrl: string;
	clients: number;
	/** The highest chat ID of the upserts. */
	chats: number;
	seconds: number;
}

/**
 * Runs the single statement with the prepared protocol, for at least one whole second.
 *
 * @returns statements per second, without the time to connect
 * @throws Error with its last lines of output, when it fails
 */
export async function runPgbench(lifetime: Lifetime, pgbench: string, order: PgbenchOrder): Promise<number> {
	const { databaseUrl, clients, chats } = order;
	const folder = mkdtempSync(join(tmpdir(), 'contacts-pgbench-'));
	const remove = lifetime.own(() => rmSync(folder, { recursive: true, force: true }));
	const script = join(folder, 'upsert.sql');
	writeFileSync(script, `\\set chat_id random(1, ${chats})\n${singleStatement.replace(/\s+/g, ' ').trim()};\n`);
	const url = new URL(databaseUrl);
	const seconds = Math.max(1, Math.round(order.seconds));
	const values = Object.entries(singleStatementValues).flatMap(([name, value]) => ['-D', `${name}=${value}`]);
	const load = ['-n', '-M', 'prepared', '-c', String(clients), '-j', '1', '-T', String(seconds)];
	const child = runProgram(lifetime, pgbench, [...load, ...values, '-f', script], seconds, {
		PATH: process.env.PATH,
		PGHOST: url.hostname,
		PGPORT: url.port,
		PGUSER: decodeURIComponent(url.username),
		PGPASSWORD: decodeURIComponent(url.password),
		PGDATABASE: url.pathname.slice(1),
	});
	try {
		const output = await child.output;
		const rate = statementsPerSecond(output);
		if (rate === undefined) throw new Error(`pgbench failed: ${output.trim().slice(-500)}`);
		return rate;
	} finally {
		await remove();
	}
}

/** Parses pgbench's report, whose wording differs between versions. */
export function statementsPerSecond(output: string): number | undefined {
	const rate = /^tps = ([0-9.]+) \((?:without initial connection|excluding connections)/m.exec(output)?.[1];
	return rate === undefined ? undefined : Number(rate);
}

function entriesOf(folder: string): string[] {
	try {
		return readdirSync(folder);
	} catch {
		return [];
	}
}
