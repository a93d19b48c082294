import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Sql } from '@contacts/common/database/client.js';
import { type ConfirmOptions, confirm } from '../confirm.js';
import { findDatabaseUrl, withDatabase } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { openFile } from '../import/source-file.js';
import { type OutputOptions, printResult } from '../output.js';
import { createProgress } from '../progress.js';
import { streams } from '../streams.js';
import { readBackup } from './backup-reader.js';
import {
	type BackupKey,
	createSeal,
	endLine,
	endOfRows,
	formatName,
	type Header,
	maxRowBytes,
	readBackupKey,
	summaryOf,
	version,
} from './format.js';
import { findTarget, writeFileWhole } from './output-file.js';
import { countRows, readRows, readSchemaVersion, readTables, record } from './tables.sql.js';
import { asOwner, inTransaction, isDatabaseError } from './transaction.js';

/** Begins a snapshot of everything, which does not see concurrent writes. */
const snapshot = 'begin isolation level repeatable read read only';

export interface BackupOptions extends OutputOptions, ConfirmOptions {
	/** Read an existing backup instead. */
	verify?: boolean;
}

/** `contacts backup` */
export async function backUp(environment: NodeJS.ProcessEnv, path: string, options: BackupOptions): Promise<void> {
	const key = readBackupKey(environment);
	if (options.verify) {
		const source = path === '-' ? streams().stdin : (await openFile(path)).chunks;
		return printSummary(path, await readBackup(source, key, (backup) => backup.verifyRest()), options);
	}
	const url = await findDatabaseUrl(environment);
	let header: Header | undefined;
	if (path === '-') {
		const { stdout } = streams();
		if (stdout.isTTY) throw new UsageError('A backup is no text for a terminal: name a file, or pipe it.');
		header = await writeBackup(url, stdout, key);
	} else {
		const target = await findTarget(path);
		if (target.exists) await confirm(`${path} will be replaced.`, options);
		await writeFileWhole(target.path, async (file) => {
			header = await writeBackup(url, file, key);
		});
	}
	if (header === undefined) return;
	const { tables: _, ...summary } = summaryOf(header);
	await withDatabase(environment, (sql) => record(sql, 'backup written', summary));
	if (path !== '-') printSummary(path, header, options);
}

function printSummary(file: string, header: Header, options: OutputOptions): void {
	const summary = summaryOf(header);
	const keyed = summary.keyed ? ', with a keyed hash' : '';
	const text = `${summary.rows} rows of ${summary.tables.length} tables are in ${file}${keyed}.`;
	printResult({ file, ...summary }, text, options);
}

/** Writes a consistent snapshot of the whole database. */
function writeBackup(url: string, destination: Writable, key: BackupKey | undefined): Promise<Header> {
	const written = inTransaction(url, snapshot, async (sql) => {
		const header = await describe(sql, new Date(), key);
		const progress = createProgress(summaryOf(header).rows);
		try {
			const text = textOf(sql, header, (rows) => progress.update(rows, rows), key);
			// This function must not end standard output.
			await pipeline(text, createGzip(), destination, { end: destination !== streams().stdout });
		} catch (error) {
			const { code, syscall } = error as NodeJS.ErrnoException;
			if (syscall === 'write' && !isDatabaseError(error))
				throw new CommandError(`The backup can't be written (${code}): it is incomplete.`);
			throw error;
		} finally {
			progress.stop();
		}
		return header;
	});
	return asOwner(written);
}

async function describe(sql: Sql, now: Date, key: BackupKey | undefined): Promise<Header> {
	const schema = await readSchemaVersion(sql);
	if (schema === undefined) throw new CommandError('The database has no tables yet: there is nothing to back up.');
	const tables = [];
	for (const { name, columns, nextId } of await readTables(sql))
		tables.push({ name, columns, rows: await countRows(sql, name), next_id: nextId });
	return { format: formatName, version, key_id: key?.id ?? null, schema, created_at: now.toISOString(), tables };
}

/** The text of a backup. `onRows` receives the number of rows read so far. */
async function* textOf(
	sql: Sql,
	header: Header,
	onRows: (rows: number) => void,
	key: BackupKey | undefined,
): AsyncGenerator<string | Buffer> {
	const seal = createSeal(key);
	const sealed = (piece: string | Buffer) => {
		seal.update(piece);
		return piece;
	};
	yield sealed(`${JSON.stringify(header)}\n`);
	let rows = 0;
	for (const table of header.tables) {
		let rowBytes = 0;
		for await (const piece of readRows(sql, table)) {
			let from = 0;
			for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', from)) {
				checkLength(rowBytes + end - from, table.name);
				rows++;
				rowBytes = 0;
				from = end + 1;
			}
			rowBytes += piece.length - from;
			onRows(rows);
			yield sealed(piece);
		}
		yield sealed(`${endOfRows}\n`);
	}
	yield `${endLine(seal, key)}\n`;
}

function checkLength(bytes: number, table: string): void {
	if (bytes > maxRowBytes)
		throw new CommandError(`A row of ${table} is longer than ${maxRowBytes / 1024 ** 2} MiB: it can't be backed up.`);
}
