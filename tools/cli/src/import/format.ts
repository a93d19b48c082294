import { extname } from 'node:path';
import { Option } from 'commander';
import { CommandError, UsageError } from '../errors.js';
import type { OutputOptions } from '../output.js';
import { readCsv } from './csv.js';
import type { Columns, SourceRecord } from './lines.js';
import { readNdjson } from './ndjson.js';

const readers = { csv: readCsv, ndjson: readNdjson };

type Format = keyof typeof readers;

/** The options of a command that reads a file. */
export interface ReadOptions extends OutputOptions {
	format?: Format;
}

export const formatOption = () =>
	new Option('--format <format>', 'if the name does not show it').choices(Object.keys(readers));

/** Reads the records of a file. */
export type RecordReader = (chunks: AsyncIterable<Buffer>, columns: Columns) => AsyncGenerator<SourceRecord>;

/** @param format default: the extension of the file name */
export function readerFor(path: string, format: Format | undefined): RecordReader {
	const extension = extname(path).slice(1).toLowerCase();
	const found = format ?? (extension === 'jsonl' ? 'ndjson' : extension);
	if (!Object.hasOwn(readers, found))
		throw new UsageError('The file name does not end in .csv or .ndjson: say --format.');
	const read = readers[found as Format];
	return (chunks, columns) => read(ofKnownKind(chunks), columns);
}

/** How files begin that are neither CSV nor NDJSON in UTF-8, in hexadecimal, and what to do with them. */
const otherKinds: Record<string, string> = {
	'1f8b': 'is compressed with gzip: unpack it first',
	'504b0304': 'is an Excel workbook or another archive: save it as "CSV UTF-8"',
	fffe: 'is UTF-16, which Excel calls Unicode text: save it as "CSV UTF-8"',
	feff: 'is UTF-16, which Excel calls Unicode text: save it as "CSV UTF-8"',
};

/** @throws CommandError when the file is of another kind */
async function* ofKnownKind(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
	let isFirst = true;
	for await (const chunk of chunks) {
		const kind = Object.keys(otherKinds).find((begin) => isFirst && chunk.toString('hex', 0, 4).startsWith(begin));
		if (kind !== undefined) throw new CommandError(`The file ${otherKinds[kind]}.`);
		isFirst = false;
		yield chunk;
	}
}
