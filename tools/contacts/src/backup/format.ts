import { createHash, createHmac, type Hash, type Hmac, timingSafeEqual } from 'node:crypto';
import { CommandError, UsageError } from '../errors.js';

/**
 * A backup is gzipped text: the header as a line of JSON, the rows of each table as COPY writes them, followed by a line
 * `\.`, and at the end a line of JSON with the hash of everything before it. The hash is SHA-256, which detects damage, or with
 * a key HMAC-SHA-256, which also detects forgery.
 */
export interface Header {
	format: typeof formatName;
	version: typeof version;
	/** The ID of the key of the hash. Null without a key. */
	key_id: string | null;
	/** The last migration of the database. */
	schema: number;
	/** ISO 8601, UTC */
	created_at: string;
	tables: TableHeader[];
}

/** What a backup contains. */
export function summaryOf({ schema, created_at, key_id, tables }: Header) {
	return {
		schema,
		created_at,
		keyed: key_id !== null,
		rows: tables.reduce((sum, { rows }) => sum + rows, 0),
		tables: tables.map(({ name, rows }) => ({ name, rows })),
	};
}

interface TableHeader {
	name: string;
	columns: string[];
	rows: number;
	/** The ID of the next row. Null for a table without an identity column. */
	next_id: number | null;
}

export const formatName = 'contacts-backup';
export const version = 3;

/** The line after the rows of a table. */
export const endOfRows = '\\.';

/**
 * The longest row in bytes, for writing and reading. Rows of the services and the CRM are far shorter. The limit matters as
 * an archive of a few kilobytes can unpack to any length.
 */
export const maxRowBytes = 16 * 1024 * 1024;

/** The longest header, in bytes. A usual one has some kilobytes. */
const maxHeaderBytes = 65_536;

/** The file is damaged, so nothing of it is restored. */
export class DamagedBackupError extends CommandError {
	constructor(what: string) {
		super(`The backup is damaged: ${what}. Nothing was changed; take another copy of the file.`);
	}
}

/** A secret for the hash of a backup, so that nobody else can compute it. */
export interface BackupKey {
	secret: string;
	/** Identifies the key in a header, so that a wrong key is refused before any row is read. It reveals nothing of the secret. */
	id: string;
}

/**
 * The key in `BACKUP_KEY`; undefined where that is not set.
 *
 * @throws UsageError when it is not a valid key
 */
export function readBackupKey({ BACKUP_KEY: secret }: NodeJS.ProcessEnv): BackupKey | undefined {
	if (!secret) return undefined;
	if (!/^[\x21-\x7e]{32,512}$/.test(secret)) {
		throw new UsageError(
			'BACKUP_KEY must be 32 to 512 printable ASCII characters without spaces: "openssl rand -hex 32" makes one.',
		);
	}
	return { secret, id: createHmac('sha256', secret).update('contacts-backup key').digest('hex').slice(0, 16) };
}

export function createSeal(key: BackupKey | undefined): Hash | Hmac {
	return key === undefined ? createHash('sha256') : createHmac('sha256', key.secret);
}

/** The last line of a backup. */
export function endLine(seal: Hash | Hmac, key: BackupKey | undefined): string {
	return JSON.stringify({ end: true, [key === undefined ? 'sha256' : 'hmac_sha256']: seal.digest('hex') });
}

/** Compares in constant time, so that the right hash can't be guessed byte by byte. */
export function isSame(one: Buffer, other: string): boolean {
	const bytes = Buffer.from(other);
	return one.length === bytes.length && timingSafeEqual(one, bytes);
}

/** @throws CommandError when this is not a backup that this release can read */
export function parseHeader(line: Buffer): Header {
	let header: Partial<Header> | null = null;
	try {
		if (line.length <= maxHeaderBytes) header = JSON.parse(line.toString('utf8'));
	} catch {
		// Without valid JSON there is no header.
	}
	if (header?.format !== formatName) throw new CommandError('This is no file that "contacts backup" has written.');
	if (header.version !== version)
		throw new CommandError(`This backup has format ${header.version}: use the release that wrote it.`);
	const { tables } = header;
	const valid =
		(header.key_id === null || typeof header.key_id === 'string') &&
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

/** @throws CommandError when only one of backup and caller has a key, or the keys differ */
export function checkKey({ key_id }: Header, key: BackupKey | undefined): void {
	if (key === undefined) {
		if (key_id === null) return;
		throw new CommandError(
			'This backup is keyed: set BACKUP_KEY to the key that it was written with. Nothing was changed.',
		);
	}
	if (key_id === null) {
		throw new CommandError(
			'This backup has no keyed hash, so anybody could have written it: unset BACKUP_KEY if it is to be restored. Nothing was changed.',
		);
	}
	if (!isSame(Buffer.from(key_id), key.id))
		throw new CommandError('BACKUP_KEY is not the key that this backup was written with. Nothing was changed.');
}

const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
