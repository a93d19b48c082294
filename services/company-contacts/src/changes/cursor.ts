import { createHash } from 'node:crypto';

/** After which contact of which version. */
export interface Position {
	version: number;
	id: number;
}

/** Where a reader of the changes stands: everything up to this position has been read. */
export interface Cursor extends Position {
	/** The epoch whose versions are meant. */
	epoch: string;
	/** Of a reader who began with nothing, the last version at that time: it needs no tombstones up to there. Else 0. */
	began: number;
	/** The last version when the reader was here. */
	head: number;
}

/** No contact has a greater ID: behind it the whole version has been read. */
export const lastId = Number.MAX_SAFE_INTEGER;

const epochBytes = 16;
const numberBytes = 8;
const checksumBytes = 5;
const encoded = /^[\w-]{71}$/;

/** The opaque form of a cursor. */
export function encodeCursor({ epoch, version, id, began, head }: Cursor): string {
	const numbers = [version, id, began, head];
	const bytes = Buffer.alloc(epochBytes + numbers.length * numberBytes);
	bytes.write(epoch.replaceAll('-', ''), 'hex');
	for (const [n, number] of numbers.entries()) bytes.writeBigUInt64BE(BigInt(number), epochBytes + n * numberBytes);
	return Buffer.concat([bytes, checksumOf(bytes)]).toString('base64url');
}

/** @returns undefined for a text that `encodeCursor` has not made */
export function decodeCursor(text: string): Cursor | undefined {
	const all = Buffer.from(text, 'base64url');
	const bytes = all.subarray(0, -checksumBytes);
	// A text of this length has bits to spare: of those that stand for the same bytes, one was given out.
	const isOwn =
		encoded.test(text) && checksumOf(bytes).equals(all.subarray(-checksumBytes)) && all.toString('base64url') === text;
	if (!isOwn) return undefined;
	const numberAt = (n: number) => Number(bytes.readBigUInt64BE(epochBytes + n * numberBytes));
	const epoch = bytes.toString('hex', 0, epochBytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
	return { epoch, version: numberAt(0), id: numberAt(1), began: numberAt(2), head: numberAt(3) };
}

/** Tells a cursor from a text that was cut off or made up. It is no secret: every reader may read everything. */
function checksumOf(bytes: Buffer): Buffer {
	return createHash('sha256').update('company_contacts.changes').update(bytes).digest().subarray(0, checksumBytes);
}
