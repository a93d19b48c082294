import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { CommandError } from '../errors.js';
import type { BackupKey } from './backup-key.js';

/**
 * A backup is NDJSON, compressed by gzip: the header, then of each table its rows (as many as the header says) and a closing
 * line, and at the end a line with the hash of all lines before it: SHA-256, which finds damage, or with a key HMAC-SHA-256,
 * which finds forgery too.
 */
export interface Header {
	format: typeof formatName;
	/** 2 with a key: releases that know nothing of keys refuse it. */
	version: 1 | 2;
	/** Of the key that the last line was made with; absent in version 1. */
	key_id?: string;
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

export const formatName = 'contacts-backup';

/**
 * The longest row, in bytes, when it is written and when it is read. What the services and the CRM store is far shorter, and
 * an archive of a few kilobytes can unpack to any length.
 */
export const maxRowBytes = 16 * 1024 * 1024;

/** The longest header, and line behind a table, in bytes: they are some kilobytes. */
const maxStructureBytes = 65_536;

/** Something is wrong with the file, so nothing of it is taken. */
export class DamagedBackupError extends CommandError {
	constructor(what: string) {
		super(`The backup is damaged: ${what}. Nothing was changed; take another copy of the file.`);
	}
}

/** SHA-256 of lines, or HMAC-SHA-256 with a key. */
export function hashLines(key?: BackupKey): { add(line: string | Buffer): void; digest(): string } {
	const hash = key === undefined ? createHash('sha256') : createHmac('sha256', key.secret);
	return {
		add: (line) => void hash.update(line).update('\n'),
		digest: () => hash.digest('hex'),
	};
}

/** The last line of a backup, of the hash of all lines before it, hexadecimal. */
export function endLine(digest: string, key: BackupKey | undefined): string {
	return JSON.stringify({ end: true, [key === undefined ? 'sha256' : 'hmac_sha256']: digest });
}

/** Compares in constant time, so that the right hash can't be guessed byte by byte. */
export function isSame(one: Buffer, other: string): boolean {
	const bytes = Buffer.from(other);
	return one.length === bytes.length && timingSafeEqual(one, bytes);
}

/** @throws CommandError when this is no backup that this release reads */
export function parseHeader(line: Buffer | undefined): Header {
	const header = parseLine(line) as Partial<Header> | undefined;
	if (header?.format !== formatName) throw new CommandError('This is no file that "contacts backup" has written.');
	if (header.version !== 1 && header.version !== 2) {
		throw new CommandError(`This backup has format ${header.version}: take the release that wrote it, or a later one.`);
	}
	const { tables } = header;
	const valid =
		(header.version === 1 ? header.key_id === undefined : typeof header.key_id === 'string') &&
		Number.isSafeInteger(header.schema) &&
		typeof header.created_at === 'string' &&
		Array.isArray(tables) &&
		tables.every(
			(table) =>
				typeof table?.name === 'string' &&
				Array.isArray(table.columns) &&
				isCount(table.rows) &&
				(table.next_id === null || isCount(table.next_id)),
		);
	if (!valid) throw new DamagedBackupError('its first line is wrong');
	return header as Header;
}

/** @throws CommandError when a backup has no keyed hash and a key is given, or the other way round, or another key was used */
export function checkKey({ key_id }: Header, key: BackupKey | undefined): void {
	if (key === undefined) {
		if (key_id === undefined) return;
		throw new CommandError(
			'This backup is keyed: set BACKUP_KEY to the key that it was written with. Nothing was changed.',
		);
	}
	if (key_id === undefined) {
		throw new CommandError(
			'This backup has no keyed hash, so anybody could have written it: unset BACKUP_KEY if it is to be restored. Nothing was changed.',
		);
	}
	if (!isSame(Buffer.from(key_id), key.id))
		throw new CommandError('BACKUP_KEY is not the key that this backup was written with. Nothing was changed.');
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
