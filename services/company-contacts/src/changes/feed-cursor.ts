import { createHash } from 'node:crypto';
import { Problem } from '@contacts/common/http/problems.js';

/** The position after a contact (`id`) of a version. */
export interface Position {
	version: number;
	id: number;
}

/** The position of a reader of the changes: the reader has read everything up to it. */
export interface Cursor extends Position {
	/** The epoch that the versions belong to. */
	epoch: string;
	/** The last version when a reader without a cursor started: it needs no tombstones up to this version. Otherwise 0. */
	began: number;
	/** The last version when the reader received this cursor. */
	head: number;
}

/** Greater than the ID of any contact: after it, the whole version has been read. */
export const lastId = Number.MAX_SAFE_INTEGER;

const epochBytes = 16;
const numberBytes = 8;

/** Returns the opaque form of a cursor. */
export function encodeCursor({ epoch, version, id, began, head }: Cursor): string {
	const numbers = [version, id, began, head];
	const bytes = Buffer.alloc(epochBytes + numbers.length * numberBytes);
	bytes.write(epoch.replaceAll('-', ''), 'hex');
	for (const [n, number] of numbers.entries()) bytes.writeBigUInt64BE(BigInt(number), epochBytes + n * numberBytes);
	return Buffer.concat([bytes, checksumOf(bytes)]).toString('base64url');
}

/** @throws Problem `invalid_query` for a text that `encodeCursor` has not produced */
export function decodeCursor(text: string): Cursor {
	// A text that is too short fails the comparison below.
	const bytes = Buffer.concat([Buffer.from(text, 'base64url'), Buffer.alloc(epochBytes + 4 * numberBytes)]);
	const epoch = bytes.toString('hex', 0, epochBytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
	const numberAt = (n: number) => Number(bytes.readBigUInt64BE(epochBytes + n * numberBytes));
	const cursor = { epoch, version: numberAt(0), id: numberAt(1), began: numberAt(2), head: numberAt(3) };
	const { version, id, began, head } = cursor;
	// A larger number would be no bigint of the database. Several texts decode to the same bytes; only one was issued.
	if (Math.max(version, id, began, head) > lastId || encodeCursor(cursor) !== text) throw invalidCursor();
	return cursor;
}

/** The error for a text that is not a cursor. */
export function invalidCursor(): Problem {
	const errors = [
		{ field: 'cursor', message: 'must be the cursor of an earlier response; leave it out at the first request' },
	];
	return new Problem('invalid_query', { errors });
}

/** Detects truncated and invented cursors. The checksum is no secret: every reader may read everything. */
function checksumOf(bytes: Buffer): Buffer {
	return createHash('sha256').update('company_contacts.changes').update(bytes).digest().subarray(0, 5);
}
