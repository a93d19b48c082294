import { CommandError } from '../errors.js';

/** One record of a file: its fields by name, or why it is refused. `line` counts from 1. */
export type SourceRecord = { line: number; fields: Record<string, unknown> } | { line: number; error: string };

/** The columns that a file may have, in any order, and the one that it must have. */
export interface Columns {
	names: readonly string[];
	required: string;
}

/** The maximum length of a record, in bytes. It bounds the memory of an import, which keeps a part of the records. */
export const maxRecordLength = 262_144;

/**
 * The lines of a file, without LF. `node:readline` has no limit for the length of a line, and also ends one at U+2028, which a
 * JSON string may hold. Of a line that is longer than a record, only the beginning may be there: reading must end with it.
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
	let rest: Buffer = Buffer.alloc(0);
	for await (const chunk of chunks) {
		const bytes = Buffer.concat([rest, chunk]);
		let begin = 0;
		for (let end = bytes.indexOf('\n'); end !== -1; end = bytes.indexOf('\n', begin)) {
			yield bytes.subarray(begin, end);
			begin = end + 1;
		}
		rest = bytes.subarray(begin);
		if (rest.length > maxRecordLength) yield rest;
	}
	yield rest;
}

export const unreadable = (line: number, reason: string) =>
	new CommandError(`The file can't be read from line ${line} on: ${reason}.`);
