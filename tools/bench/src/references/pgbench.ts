import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Lifetime } from '../lifetime.js';
import { findProgram } from '../programs.js';
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

/**
 * Runs the single statement with the prepared protocol, for at least one whole second.
 *
 * @returns statements per second, without the time to connect
 * @throws Error with its last lines of output, when it fails
 */
export async function runPgbench(
	lifetime: Lifetime,
	pgbench: string,
	databaseUrl: string,
	clients: number,
	chats: number,
	seconds: number,
): Promise<number> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-pgbench-'));
	const remove = lifetime.own(() => rmSync(folder, { recursive: true, force: true }));
	const script = join(folder, 'upsert.sql');
	writeFileSync(script, `\\set chat_id random(1, ${chats})\n${singleStatement.replace(/\s+/g, ' ').trim()};\n`);
	const url = new URL(databaseUrl);
	const values = Object.entries(singleStatementValues).flatMap(([name, value]) => ['-D', `${name}=${value}`]);
	const timing = ['-T', String(Math.max(1, Math.round(seconds)))];
	const load = ['-n', '-M', 'prepared', '-c', String(clients), '-j', '1'];
	const child = spawn(pgbench, [...load, ...timing, ...values, '-f', script], {
		env: {
			PATH: process.env.PATH ?? '',
			PGHOST: url.hostname,
			PGPORT: url.port,
			PGUSER: decodeURIComponent(url.username),
			PGPASSWORD: decodeURIComponent(url.password),
			PGDATABASE: url.pathname.slice(1),
		},
		stdio: ['ignore', 'pipe', 'pipe'],
	});
	const closed = once(child, 'close');
	const end = lifetime.own(async () => {
		child.kill('SIGKILL');
		await closed;
	});
	let output = '';
	for (const stream of [child.stdout, child.stderr]) {
		stream.setEncoding('utf8').on('data', (text: string) => {
			output += text;
		});
	}
	try {
		const [code] = await closed;
		const rate = statementsPerSecond(output);
		if (code !== 0 || rate === undefined) throw new Error(`pgbench failed: ${output.trim().slice(-500)}`);
		return rate;
	} finally {
		await end();
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
