import { isDeepStrictEqual } from 'node:util';
import type { Sql } from '@contacts/common/database/client.js';
import { CommandError } from '../errors.js';
import { readLines } from '../import/lines.js';
import type { BackupKey } from './backup-key.js';
import {
	checkKey,
	DamagedBackupError,
	endLine,
	type Header,
	hashLines,
	isSame,
	maxRowBytes,
	parseHeader,
	parseLine,
	type TableHeader,
} from './format.js';
import * as database from './tables.sql.js';

/** What is sent to the database at once, at most so many rows, and bytes but for the last row. */
const batch = { rows: 1000, bytes: 4 * 1024 * 1024 };

/** The lines of a backup, one after the other. */
export interface BackupLines {
	header: Header;
	/**
	 * @param what the line should be, for the message
	 * @throws DamagedBackupError when there is no further line, or it is too long
	 */
	next(what: string): Promise<Buffer>;
	/** @throws DamagedBackupError when this is not the end, or the hash of everything is another */
	end(): Promise<void>;
}

/** @throws CommandError when this is no backup that this release reads, or none of this key */
export async function openBackup(chunks: AsyncIterable<Buffer>, key: BackupKey | undefined): Promise<BackupLines> {
	const lines = readLines(chunks, maxRowBytes);
	const whole = hashLines(key);
	const read = async () => (await lines.next()).value as { bytes: Buffer | undefined } | undefined;
	const first = (await read())?.bytes;
	const header = parseHeader(first);
	checkKey(header, key);
	if (first !== undefined) whole.add(first);
	return {
		header,
		async next(what) {
			const line = await read();
			if (line === undefined) throw new DamagedBackupError('it ends too early');
			if (line.bytes === undefined)
				throw new DamagedBackupError(`${what} is longer than ${maxRowBytes / 1024 ** 2} MiB`);
			whole.add(line.bytes);
			return line.bytes;
		},
		async end() {
			const last = await read();
			if (last === undefined) throw new DamagedBackupError('it ends too early');
			if (last.bytes === undefined || !isSame(last.bytes, endLine(whole.digest(), key)))
				throw new DamagedBackupError('its content is not what was written');
			if ((await read()) !== undefined) throw new DamagedBackupError('something stands behind its end');
		},
	};
}

/**
 * Puts a backup into the database, within the transaction of its caller. What the services read stays as it was until the
 * commit, and nobody else can write. Identity sequences never go back.
 *
 * @param replace delete what is there, instead of refusing
 * @throws DamagedBackupError, CommandError: the transaction must not be committed
 */
export async function restoreBackup(
	sql: Sql,
	backup: BackupLines,
	{ replace, onRows }: { replace: boolean; onRows: (rows: number) => void },
): Promise<void> {
	const { header } = backup;
	checkSchema(header, await database.readSchemaVersion(sql));
	const tables = await database.readTables(sql);
	await database.lockTables(sql, tables);
	const shape = (table: { name: string; columns: string[] }) => ({ name: table.name, columns: table.columns });
	if (!isDeepStrictEqual(header.tables.map(shape), tables.map(shape)))
		throw new CommandError(
			'The tables here have other columns than those of the backup, though the schema is the same.',
		);
	// What is taken from a sequence is taken for good, unless the sequence was restarted in the same transaction.
	for (const { sequence, nextId } of tables) {
		if (sequence !== null) await database.restartSequence(sql, sequence, nextId ?? 1);
	}
	await makeEmpty(sql, tables, replace);

	let total = 0;
	for (const [index, table] of tables.entries()) {
		const expected = header.tables[index] as TableHeader;
		// Projects and keys were recorded as made anew.
		if (table.name === 'audit_log') await database.deleteRows(sql, table.name);
		const before = total;
		await restoreTable(sql, backup, table, expected, (rows) => onRows(before + rows));
		total += expected.rows;
		if (table.sequence !== null)
			await database.restartSequence(sql, table.sequence, Math.max(expected.next_id ?? 1, table.nextId ?? 1));
	}
	await backup.end();
	await database.beginContactsEpoch(sql);
	for (const { name, rows } of header.tables) {
		if ((await database.countRows(sql, name)) !== rows) throw new CommandError(`Not every row of ${name} was stored.`);
	}
}

async function restoreTable(
	sql: Sql,
	backup: BackupLines,
	table: database.Table,
	expected: TableHeader,
	onRows: (rows: number) => void,
): Promise<void> {
	const part = hashLines();
	let lines: string[] = [];
	let bytes = 0;
	for (let rows = 1; rows <= expected.rows; rows++) {
		const line = await backup.next(`a row of ${table.name}`);
		part.add(line);
		lines.push(line.toString('utf8'));
		bytes += line.length;
		if (lines.length < batch.rows && bytes < batch.bytes && rows < expected.rows) continue;
		await insert(sql, table, lines);
		onRows(rows);
		lines = [];
		bytes = 0;
	}
	const end = parseLine(await backup.next(`the line behind ${table.name}`));
	if (!isDeepStrictEqual(end, { table: table.name, rows: expected.rows, sha256: part.digest() }))
		throw new DamagedBackupError(`the rows of ${table.name} are not those that were written`);
}

async function insert(sql: Sql, table: database.Table, lines: string[]): Promise<void> {
	try {
		await database.insertRows(sql, table, lines);
	} catch (error) {
		// Data that the database does not take (SQLSTATE classes 22, 23 and 54). Its message may quote a person's data.
		if (/^(22|23|54)/.test((error as { code?: string }).code ?? ''))
			throw new DamagedBackupError(`a row of ${table.name} is wrong`);
		throw error;
	}
}

function checkSchema({ schema }: Header, here: number | undefined): void {
	if (here === undefined)
		throw new CommandError(`The database has no tables yet: run "contacts migrate --to ${schema}" first.`);
	if (here < schema) {
		throw new CommandError(
			`The backup has schema ${schema} and the database ${here}: run "contacts migrate" first, of the release that wrote it or a later one.`,
		);
	}
	if (here > schema) {
		throw new CommandError(
			`The backup has schema ${schema} and the database ${here}: take a new database, run "contacts migrate --to ${schema}", restore, then "contacts migrate".`,
		);
	}
}

async function makeEmpty(sql: Sql, tables: readonly database.Table[], replace: boolean): Promise<void> {
	const found: string[] = [];
	for (const { name } of replace ? [] : tables) {
		const rows = name === database.stateTable ? 0 : await database.countRows(sql, name);
		if (rows > 0) found.push(`${name} (${rows})`);
	}
	if (found.length > 0) {
		throw new CommandError(
			`The database is not empty: ${found.join(', ')}. Restore into a new one, or say --replace to delete what is there.`,
		);
	}
	for (const { name } of tables.toReversed()) {
		if (replace || name === database.stateTable) await database.deleteRows(sql, name);
	}
	await database.deleteTransientRows(sql);
}
