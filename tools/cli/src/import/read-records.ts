import { readJson } from '@contacts/common/schemas/fields.js';
import { type CsvError, parse } from 'csv-parse';
import { CommandError } from '../errors.js';

/** One record of a file: its fields by name, or why it is refused. `line` counts from 1. */
export type SourceRecord = { line: number; fields: Record<string, unknown> } | { line: number; error: string };

/** The columns that a file may have, in any order, and the one that it must have. */
export interface Columns {
	names: readonly string[];
	required: string;
}

/** The maximum length of a record, in bytes. It bounds the memory of an import. */
export const maxRecordBytes = 1_048_576;

/**
 * The number of misplaced quotes of a record that are skipped. For each of them the parser prints the field that it has read
 * so far.
 */
const maxMisplacedQuotes = 100;

const notUtf8 = 'not valid UTF-8';

/** Nothing done is no success: an empty file is more often a failed export than what somebody meant to import. */
export const noRecords = () => new CommandError('The file has no records: nothing was imported.');

/**
 * Reads CSV (RFC 4180, with LF or CRLF) that begins with a line of column names. An empty field is null. In locales with a
 * decimal comma Excel separates by semicolons: a first line with semicolons and without a comma means that.
 *
 * @throws CommandError when the column names are wrong, or when the end of a record is unknown, because a quote is not closed or the
 *   record is too long. Earlier records are returned before.
 */
export async function* readCsv(chunks: AsyncIterable<Buffer>, columns: Columns): AsyncGenerator<SourceRecord> {
	const { firstLine, text } = await readFirstLine(toLatin1(chunks));
	const delimiter = firstLine.includes(';') && !firstLine.includes(',') ? ';' : ',';
	const separator = delimiter === ';' ? 'semicolon' : 'comma';
	let names: readonly string[] | undefined;
	yield* parseRecords(text, { delimiter }, (line, values) => {
		const texts = values?.map(decode);
		const wrong =
			texts === undefined ? 'a quote is where none may be' : texts.includes(undefined) ? notUtf8 : undefined;
		if (names === undefined) {
			if (wrong !== undefined) throw new CommandError(`The line of column names can't be read: ${wrong}.`);
			names = checkNames(texts as string[], columns);
			return undefined;
		}
		if (values !== undefined && values.length > names.length)
			return { line, error: `more columns than the first line: a value with a ${separator} needs double quotes` };
		if (values !== undefined && values.length < names.length)
			return { line, error: 'fewer columns than the first line' };
		if (wrong !== undefined) return { line, error: wrong };
		return { line, fields: Object.fromEntries(names.map((name, index) => [name, texts?.[index] || null])) };
	});
	if (names === undefined) throw new CommandError('The file is empty: it must begin with a line of column names.');
}

/**
 * Reads NDJSON: one JSON object per line, or a JSON array with one on each line, as the command prints it. `node:readline` has no
 * limit for the length of a line, and also ends a line at U+2028, which a JSON string may hold.
 *
 * @throws CommandError when a line is too long. Earlier records are returned before.
 */
export async function* readNdjson(chunks: AsyncIterable<Buffer>): AsyncGenerator<SourceRecord> {
	// JSON has no U+0000, so that each line is one value.
	yield* parseRecords(toLatin1(chunks), { delimiter: '\0', quote: false }, (line, values = []) => {
		const text = decode(values.join('\0'));
		if (text === undefined) return { line, error: notUtf8 };
		const object = text.trim().replace(/,$/, '');
		if (['', '[', ']', '[]'].includes(object)) return undefined;
		const fields = readJson(Buffer.from(object));
		if (typeof fields !== 'object' || fields === null || Array.isArray(fields))
			return { line, error: 'not a JSON object' };
		return { line, fields: fields as Record<string, unknown> };
	});
}

/**
 * The text with one character for each byte, because the parser would replace bytes that are not UTF-8, and with LF in place of
 * CRLF, which the parser would count as two lines.
 */
async function* toLatin1(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
	let cut = '';
	for await (const chunk of chunks) {
		const text = cut + chunk.toString('latin1');
		cut = text.endsWith('\r') ? '\r' : '';
		yield text.slice(0, text.length - cut.length).replaceAll('\r\n', '\n');
	}
	yield cut;
}

/** The first line that is not blank, and the whole text without its byte order mark. */
async function readFirstLine(chunks: AsyncGenerator<string>) {
	let start = '';
	let firstLine: string | undefined;
	while (firstLine === undefined && start.length <= maxRecordBytes) {
		const { done, value } = await chunks.next();
		start = (start + (value ?? '')).replace(/^\u00ef\u00bb\u00bf/, '');
		firstLine = /^\n*([^\n]+)\n/.exec(start)?.[1];
		if (done) break;
	}
	async function* text() {
		yield start;
		yield* chunks;
	}
	return { firstLine: firstLine ?? start, text: text() };
}

/**
 * @param toRecord makes a record of the values in a line; undefined: a quote in it is where none may be. It returns undefined for
 *   what is no record.
 */
async function* parseRecords(
	chunks: AsyncIterable<string>,
	options: { delimiter: string; quote?: false },
	toRecord: (line: number, values: string[] | undefined) => SourceRecord | undefined,
): AsyncGenerator<SourceRecord> {
	const records: SourceRecord[] = [];
	/** The line where the next record begins. */
	let start = 1;
	let misplacedQuotes = 0;
	/** The characters since the last record. The parser does not count delimiters. */
	let pending = 0;
	const add = (line: number, values: string[] | undefined) => {
		pending = 0;
		const record = toRecord(line, values);
		if (record !== undefined) records.push(record);
	};
	const parser = parse({
		...options,
		record_delimiter: '\n',
		encoding: 'latin1',
		max_record_size: maxRecordBytes,
		relax_column_count: true,
		skip_records_with_error: true,
		// The records are taken here, not from the stream, which discards what nobody has read when an error follows.
		on_record(values: string[], { lines }) {
			const isBlank = values.length === 1 && values[0] === '';
			if (!isBlank) add(start, values);
			start = lines + 1;
			return null;
		},
		// A quote within a field that does not begin with one opens nothing: the record ends with its line.
		on_skip(error) {
			if (error?.code !== 'INVALID_OPENING_QUOTE') throw error;
			const line = Number(error.lines);
			if (start <= line) {
				[start, misplacedQuotes] = [line + 1, 0];
				add(line, undefined);
			}
			if (++misplacedQuotes <= maxMisplacedQuotes) return;
			start = line;
			throw error;
		},
	});
	parser.on('error', () => undefined);
	const feed = (text: string | undefined) =>
		new Promise<Error | undefined>((resolve) => {
			const done = (error?: Error | null) => resolve(error ?? undefined);
			if (text === undefined) parser.end(done);
			else parser.write(Buffer.from(text, 'latin1'), done);
		});
	const failIf = (error: Error | undefined) => {
		if (error instanceof CommandError) throw error;
		if (error !== undefined)
			throw new CommandError(`The file can't be read from line ${start} on: ${explain(error as CsvError)}.`);
	};
	for await (const text of chunks) {
		pending += text.length;
		const error = await feed(text);
		yield* records.splice(0);
		failIf(error);
		if (pending > 2 * maxRecordBytes) failIf(Object.assign(new Error(), { code: 'CSV_MAX_RECORD_SIZE' }));
	}
	const error = await feed(undefined);
	yield* records.splice(0);
	failIf(error);
}

function explain({ code }: CsvError): string {
	if (code === 'CSV_MAX_RECORD_SIZE')
		return `a record is longer than ${maxRecordBytes} bytes, or a quote is opened there and not closed`;
	if (code === 'INVALID_OPENING_QUOTE') return `more than ${maxMisplacedQuotes} quotes are where none may be`;
	return 'a quote is opened there, and none closes it at the end of a field';
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** @returns undefined where the bytes are not UTF-8 */
function decode(latin1: string): string | undefined {
	if (!/[\x80-\xff]/.test(latin1)) return latin1;
	try {
		return utf8.decode(Buffer.from(latin1, 'latin1'));
	} catch {
		return undefined;
	}
}

function checkNames(texts: readonly string[], columns: Columns): string[] {
	const names = texts.map((text) => text.trim());
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
