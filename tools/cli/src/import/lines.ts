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

/** How files begin that are neither CSV nor NDJSON in UTF-8, in hexadecimal, and what to do with them. */
const otherKinds: Record<string, string> = {
	'1f8b': 'is compressed with gzip: unpack it first',
	'504b0304': 'is an Excel workbook or another archive: save it as "CSV UTF-8"',
	fffe: 'is UTF-16, which Excel calls Unicode text: save it as "CSV UTF-8"',
	feff: 'is UTF-16, which Excel calls Unicode text: save it as "CSV UTF-8"',
};

/**
 * The lines of a file, without LF. `node:readline` has no limit for the length of a line, and also ends one at U+2028, which a
 * JSON string may hold. Of a line that is longer than a record, only the beginning may be there: reading must end with it.
 *
 * @throws CommandError when the file is of another kind
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
	let rest: Buffer | undefined;
	for await (const chunk of chunks) {
		const kind = Object.keys(otherKinds).find((begin) => !rest && chunk.toString('hex', 0, 4).startsWith(begin));
		if (kind !== undefined) throw new CommandError(`The file ${otherKinds[kind]}.`);
		const bytes = rest ? Buffer.concat([rest, chunk]) : chunk;
		let begin = 0;
		for (let end = bytes.indexOf('\n'); end !== -1; end = bytes.indexOf('\n', begin)) {
			yield bytes.subarray(begin, end);
			begin = end + 1;
		}
		rest = bytes.subarray(begin);
		if (rest.length > maxRecordLength) yield rest;
	}
	if (rest) yield rest;
}

export const unreadable = (line: number, reason: string) =>
	new CommandError(`The file can't be read from line ${line} on: ${reason}.`);
