import { extname } from 'node:path';
import { readJson } from '@contacts/common/schemas/fields.js';
import { Option } from 'commander';
import { type Parser, parse } from 'csv-parse';
import { CommandError, UsageError } from '../errors.js';
import type { OutputOptions } from '../output.js';

/** One record of a file: its fields by name, or why it is refused. `line` counts from 1. */
export type SourceRecord = { line: number; fields: Record<string, unknown> } | { line: number; error: string };

/** The columns that a file may have, in any order, and the one that it must have. */
interface Columns {
	names: readonly string[];
	required: string;
}

/** The maximum length of a record, in bytes or characters. It bounds the memory of an import, which keeps a batch of records. */
export const maxRecordLength = 262_144;

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

const unreadable = (line: number, reason: string) =>
	new CommandError(`The file can't be read from line ${line} on: ${reason}.`);

/**
 * Reads NDJSON: one JSON object per line, or a JSON array with one on each line, as the command prints it. `node:readline` has no
 * limit for the length of a line, and also ends a line at U+2028, which a JSON string may hold.
 *
 * @throws CommandError when a line is too long. Earlier records are returned before.
 */
export async function* readNdjson(chunks: AsyncIterable<Buffer>): AsyncGenerator<SourceRecord> {
	let line = 0;
	let rest: Buffer = Buffer.alloc(0);
	for await (const chunk of chunks) {
		const bytes = Buffer.concat([rest, chunk]);
		let begin = 0;
		for (let end = bytes.indexOf('\n'); end !== -1; end = bytes.indexOf('\n', begin)) {
			yield* toRecord(++line, bytes.subarray(begin, end));
			begin = end + 1;
		}
		rest = bytes.subarray(begin);
		if (rest.length > maxRecordLength) throw unreadable(line + 1, `a line is longer than ${maxRecordLength} bytes`);
	}
	yield* toRecord(line + 1, rest);
}

function* toRecord(line: number, bytes: Buffer): Generator<SourceRecord> {
	const text = bytes.toString('latin1').trim().replace(/,$/, '');
	if (['', '[', ']', '[]'].includes(text)) return;
	const fields = readJson(Buffer.from(text, 'latin1'));
	if (typeof fields !== 'object' || fields === null || Array.isArray(fields))
		yield { line, error: 'not a JSON object in UTF-8' };
	else yield { line, fields: fields as Record<string, unknown> };
}

/**
 * Reads CSV (RFC 4180, with LF or CRLF) that begins with a line of column names. An empty field is null.
 *
 * @throws CommandError when the column names are wrong, or when the end of a record is unknown, because of a quote or because the
 *   record is too long. Earlier records are returned before.
 */
export async function* readCsv(chunks: AsyncIterable<Buffer>, columns: Columns): AsyncGenerator<SourceRecord> {
	const records: SourceRecord[] = [];
	let names: readonly string[] | undefined;
	/** The line where the next record begins. */
	let start = 1;
	/** The characters since the last record. */
	let pending = 0;

	function add(values: string[]): void {
		if (names === undefined) {
			names = checkNames(values, columns);
		} else if (values.length === names.length) {
			const entries = names.map((name, index) => [name, values[index] || null]);
			records.push({ line: start, fields: Object.fromEntries(entries) });
		} else if (values.length > names.length) {
			records.push({ line: start, error: 'more columns than the first line: a value with a separator needs quotes' });
		} else {
			records.push({ line: start, error: 'fewer columns than the first line' });
		}
	}
	const createParser = (delimiter: string) =>
		parse({
			delimiter,
			record_delimiter: '\n',
			relax_column_count: true,
			skip_records_with_error: true,
			// The records are taken here, not from the stream, which discards what nobody has read when an error follows.
			on_record(values: string[], { lines }) {
				const isBlank = values.length === 1 && values[0] === '';
				if (!isBlank) add(values);
				[start, pending] = [lines + 1, 0];
				return null;
			},
			// A quote within a field that does not begin with one opens nothing: the record ends with its line.
			on_skip(error) {
				if (error?.code !== 'INVALID_OPENING_QUOTE' || names === undefined) throw error;
				const line = Number(error.lines);
				if (start > line) return;
				records.push({ line: start, error: 'a quote within a value: the value needs quotes, and this one is doubled' });
				[start, pending] = [line + 1, 0];
			},
			// write and end pass it to their callbacks. Without a listener it would end the process.
		}).on('error', () => undefined);
	async function* feed(parser: Parser, text: string | undefined): AsyncGenerator<SourceRecord> {
		const error = await new Promise<Error | null | undefined>((resolve) => {
			if (text === undefined) parser.end(resolve);
			else parser.write(text, resolve);
		});
		yield* records.splice(0);
		if (error instanceof CommandError) throw error;
		if (error) throw unreadable(start, 'a quote is opened there, and none closes it at the end of a field');
		if (pending > maxRecordLength)
			throw unreadable(start, `a record is longer than ${maxRecordLength} characters, or a quote is not closed`);
	}

	let parser: Parser | undefined;
	let text = '';
	for await (const part of decode(chunks)) {
		text += part;
		pending += part.length;
		const firstLine = /^\n*([^\n]+)\n/.exec(text)?.[1];
		if (parser === undefined && firstLine === undefined && pending <= maxRecordLength) continue;
		parser ??= createParser(delimiterOf(firstLine ?? text));
		yield* feed(parser, text);
		text = '';
	}
	parser ??= createParser(delimiterOf(text));
	yield* feed(parser, text);
	yield* feed(parser, undefined);
	if (names === undefined) throw new CommandError('The file is empty: it must begin with a line of column names.');
}

/** In locales with a decimal comma Excel separates by semicolons. */
const delimiterOf = (firstLine: string) => (firstLine.includes(';') && !firstLine.includes(',') ? ';' : ',');

/**
 * The text without a byte order mark, with U+FFFD for bytes that are not UTF-8, and with LF in place of CRLF, which the parser would
 * count as two lines.
 */
async function* decode(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
	const decoder = new TextDecoder();
	let cut = '';
	for await (const chunk of chunks) {
		const text = cut + decoder.decode(chunk, { stream: true });
		cut = text.endsWith('\r') ? '\r' : '';
		yield text.slice(0, text.length - cut.length).replaceAll('\r\n', '\n');
	}
	yield cut + decoder.decode();
}

function checkNames(texts: readonly string[], columns: Columns): string[] {
	const names = texts.map((text) => text.trim());
	const [first = ''] = texts;
	if (/^sep=/i.test(first)) throw new CommandError('The first line is "sep=", which only Excel reads: remove it.');
	if (first.includes('\t'))
		throw new CommandError('The columns are separated by tabs: save it with commas or semicolons.');
	const [line = '', ...others] = texts.join().split('\r');
	if (others.length > 0 && line.split(',').every((name) => columns.names.includes(name)))
		throw new CommandError('The lines end with CR alone: save it with line ends of Windows or Unix.');
	const unknown = names.filter((name) => !columns.names.includes(name));
	if (unknown.length > 0)
		throw new CommandError(
			`The first line must name columns among ${columns.names.join(', ')}; it has others: ${unknown.join(', ').slice(0, 200)}`,
		);
	if (!names.includes(columns.required))
		throw new CommandError(`There is no column ${columns.required}: it is what records are known by.`);
	if (new Set(names).size !== names.length) throw new CommandError('A column is named twice.');
	return names;
}
