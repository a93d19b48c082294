import type { Sql } from '@contacts/common/database/client.js';
import { CommandError } from '../errors.js';
import type { BackupKey } from './backup-key.js';
import { endLine, formatName, type Header, hashLines, maxRowBytes, type TableEnd } from './format.js';
import { countRows, readPage, readSchemaVersion, readTables, type Table } from './tables.sql.js';

/** Rows that are read at once. */
const pageSize = 1000;

/** How a snapshot of everything begins: what others write meanwhile is not seen. */
export const snapshot = 'begin isolation level repeatable read read only';

/** What the backup will say of the database, counted within the snapshot. */
export async function readHeader(sql: Sql, now: Date, key?: BackupKey): Promise<{ header: Header; tables: Table[] }> {
	const schema = await readSchemaVersion(sql);
	if (schema === undefined) throw new CommandError('The database has no tables yet: there is nothing to back up.');
	const tables = await readTables(sql);
	const header: Header = {
		format: formatName,
		...(key === undefined ? { version: 1 } : { version: 2, key_id: key.id }),
		schema,
		created_at: now.toISOString(),
		tables: [],
	};
	for (const { name, columns, nextId } of tables) {
		header.tables.push({ name, columns, rows: await countRows(sql, name), next_id: nextId });
	}
	return { header, tables };
}

/** The text of a backup, a page of rows at a time. `onRows` is told how many rows have been read. */
export async function* writeBackup(
	sql: Sql,
	header: Header,
	tables: readonly Table[],
	onRows: (rows: number) => void,
	key?: BackupKey,
): AsyncGenerator<string> {
	const whole = hashLines(key);
	const line = (value: object) => {
		const text = JSON.stringify(value);
		whole.add(text);
		return `${text}\n`;
	};
	yield line(header);
	let total = 0;
	for (const table of tables) {
		const part = hashLines();
		let rows = 0;
		for (let page = await readPage(sql, table, undefined, pageSize); page !== undefined; ) {
			for (const row of page.lines) {
				if (Buffer.byteLength(row) > maxRowBytes)
					throw new CommandError(
						`A row of ${table.name} is longer than ${maxRowBytes / 1024 ** 2} MiB: it can't be backed up.`,
					);
				part.add(row);
				whole.add(row);
			}
			yield `${page.lines.join('\n')}\n`;
			rows += page.lines.length;
			onRows(total + rows);
			page = await readPage(sql, table, page.last, pageSize);
		}
		total += rows;
		const end: TableEnd = { table: table.name, rows, sha256: part.digest() };
		yield line(end);
	}
	yield `${endLine(whole.digest(), key)}\n`;
}
