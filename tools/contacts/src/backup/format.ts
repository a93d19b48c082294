import { createHash } from 'node:crypto';
import { Failure } from '../failure.js';

/**
 * A backup is NDJSON, compressed by gzip: the header, then of each table its rows (as many as the header says) and a closing
 * line, and at the end a line with the hash of all lines before it.
 */
export interface Header {
	format: typeof formatName;
	version: typeof formatVersion;
	/** The last migration of the database. */
	schema: number;
	/** ISO 8601, UTC */
	created_at: string;
	tables: TableHeader[];
}

export interface TableHeader {
	name: string;
	columns: string[];
	rows: number;
	/** The ID that the next row would have got; null for a table without IDs of its own. */
	next_id: number | null;
}

export interface TableEnd {
	table: string;
	rows: number;
	/** SHA-256 of the rows' lines with their line breaks, hexadecimal. */
	sha256: string;
}

export interface End {
	end: true;
	/** SHA-256 of everything before this line, hexadecimal. */
	sha256: string;
}

export const formatName = 'contacts-backup';
export const formatVersion = 1;

/**
 * The longest row, in bytes, when it is written and when it is read. What the services and the CRM store is far shorter, and
 * an archive of a few kilobytes can unpack to any length.
 */
export const maxRowBytes = 16 * 1024 * 1024;

/** The longest header, and line behind a table, in bytes: they are some kilobytes. */
const maxStructureBytes = 65_536;

/** Something is wrong with the file, so nothing of it is taken. */
export class Damaged extends Failure {
	constructor(what: string) {
		super(`The backup is damaged: ${what}. Nothing was changed; take another copy of the file.`);
	}
}

/** SHA-256 of lines. */
export function hashLines(): { add(line: string | Buffer): void; digest(): string } {
	const hash = createHash('sha256');
	return {
		add: (line) => void hash.update(line).update('\n'),
		digest: () => hash.digest('hex'),
	};
}

/** @throws Failure when this is no backup that this release reads */
export function parseHeader(line: Buffer | undefined): Header {
	const header = parseLine(line) as Partial<Header> | undefined;
	if (header?.format !== formatName) throw new Failure('This is no file that "contacts backup" has written.');
	if (header.version !== formatVersion) {
		throw new Failure(`This backup has format ${header.version}: take the release that wrote it, or a later one.`);
	}
	const { tables } = header;
	const valid =
		Number.isSafeInteger(header.schema) &&
		Array.isArray(tables) &&
		tables.every(
			(table) =>
				typeof table?.name === 'string' &&
				Array.isArray(table.columns) &&
				isCount(table.rows) &&
				(table.next_id === null || isCount(table.next_id)),
		);
	if (!valid) throw new Damaged('its first line is wrong');
	return header as Header;
}

const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;

/** @returns undefined where it is no JSON object of moderate length */
export function parseLine(line: Buffer | undefined): object | undefined {
	if (line === undefined || line.length > maxStructureBytes) return undefined;
	try {
		const value: unknown = JSON.parse(line.toString('utf8'));
		return typeof value === 'object' && value !== null ? value : undefined;
	} catch {
		return undefined;
	}
}
