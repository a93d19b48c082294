import { type CsvError, type Parser, parse } from 'csv-parse';
import { parse as parseAtOnce } from 'csv-parse/sync';
import { CommandError } from '../errors.js';
import { type Line, maxRecordBytes, readLines } from './lines.js';
import { type Columns, decode, notUtf8, type SourceRecord, tooLong, unreadableFrom } from './records.js';

/** The longest line of column names, in bytes. */
const maxHeadBytes = 65_536;

/**
 * The number of misplaced quotes of a record that are skipped. For each of them the parser prints the field that it has read
 * so far.
 */
const maxMisplacedQuotes = 100;

const misplacedQuote = 'a quote is where none may be';

/**
 * Reads CSV (RFC 4180, with LF or CRLF) that begins with a line of column names. An empty field is null. In locales with a
 * decimal comma Excel separates by semicolons: a first line with semicolons and without a comma means that.
 *
 * @throws CommandError when the head is wrong; or when a record has no certain end, because a quote is not closed or the
 *   record is too long: where the next one begins is unknown. Earlier records are returned before.
 */
export async function* readCsv(chunks: AsyncIterable<Buffer>, columns: Columns): AsyncGenerator<SourceRecord> {
	const lines = readLines(chunks);
	const head = readHead(await firstLine(lines), columns);
	const records: SourceRecord[] = [];
	/** Where the next record begins. */
	let start = head.line + 1;
	let misplacedQuotes = { line: 0, count: 0 };
	const parser = parse({
		delimiter: head.delimiter,
		record_delimiter: '\n',
		// One character for each byte. Its own UTF-8 decoder replaces bytes that are not UTF-8.
		encoding: 'latin1',
		max_record_size: maxRecordBytes,
		relax_column_count: true,
		skip_records_with_error: true,
		// The records are taken here, not from the stream, which discards what nobody has read when an error follows.
		on_record(values: string[], { lines: inParser }) {
			const isBlank = values.length === 1 && values[0] === '';
			if (!isBlank) records.push(toRecord(start, head.names, values));
			start = head.line + inParser + 1;
			return null;
		},
		// A quote within a field that does not begin with one opens nothing: the record ends with its line.
		on_skip(error) {
			if (error?.code !== 'INVALID_OPENING_QUOTE') throw error;
			const line = head.line + Number(error.lines);
			if (line !== misplacedQuotes.line) {
				misplacedQuotes = { line, count: 0 };
				records.push({ line, error: misplacedQuote });
			}
			const tooMany = ++misplacedQuotes.count > maxMisplacedQuotes;
			start = tooMany ? line : line + 1;
			if (tooMany) throw error;
		},
	});
	parser.on('error', () => undefined);

	while (true) {
		const next = await lines.next();
		const bytes = next.done ? undefined : next.value.bytes;
		const error = await feed(parser, bytes);
		yield* records.splice(0);
		if (error !== undefined) throw unreadableFrom(start, describe(error));
		if (next.done) return;
		if (bytes === undefined) throw unreadableFrom(next.value.number, tooLong);
	}
}

/** Hands a line to the parser, or ends it. @returns the error of the parser */
function feed(parser: Parser, bytes: Buffer | undefined): Promise<CsvError | undefined> {
	return new Promise((resolve) => {
		const done = (error?: Error | null) => resolve((error as CsvError | null) ?? undefined);
		if (bytes === undefined) parser.end(done);
		else parser.write(Buffer.concat([bytes, Buffer.from('\n')]), done);
	});
}

function describe({ code }: CsvError): string {
	if (code === 'CSV_MAX_RECORD_SIZE') return `a record is ${tooLong}, or a quote is opened there and not closed`;
	if (code === 'INVALID_OPENING_QUOTE') return `more than ${maxMisplacedQuotes} quotes are where none may be`;
	return 'a quote is opened there, and none closes it at the end of a field';
}

function toRecord(line: number, names: readonly string[], values: readonly string[]): SourceRecord {
	if (values.length !== names.length) return { line, error: 'not as many columns as the head' };
	const fields: Record<string, unknown> = {};
	for (const [index, name] of names.entries()) {
		const text = toText(values[index] ?? '');
		if (text === undefined) return { line, error: notUtf8 };
		fields[name] = text || null;
	}
	return { line, fields };
}

/** @param value one character for each byte */
function toText(value: string): string | undefined {
	return /[\x80-\xff]/.test(value) ? decode(Buffer.from(value, 'latin1')) : value;
}

/** The first line that is not blank. */
async function firstLine(lines: AsyncGenerator<Line>): Promise<Line> {
	while (true) {
		const { done, value } = await lines.next();
		if (done) throw new CommandError('The file is empty: it must begin with a line of column names.');
		if (value.bytes?.length !== 0) return value;
	}
}

function readHead({ number, bytes }: Line, columns: Columns): { line: number; names: string[]; delimiter: string } {
	const unreadable = (reason: string) => new CommandError(`The line of column names can't be read: ${reason}.`);
	if (bytes === undefined || bytes.length > maxHeadBytes) throw unreadable(`longer than ${maxHeadBytes} bytes`);
	const text = decode(bytes);
	if (text === undefined) throw unreadable(notUtf8);
	const delimiter = text.includes(';') && !text.includes(',') ? ';' : ',';
	let found: string[][];
	try {
		found = parseAtOnce(text, { delimiter, record_delimiter: '\n' });
	} catch {
		throw unreadable(misplacedQuote);
	}
	const names = (found[0] ?? []).map((name) => name.trim());
	const unknown = names.filter((name) => !columns.names.includes(name));
	if (unknown.length > 0) {
		throw new CommandError(
			`The first line must name columns among ${columns.names.join(', ')}; it has others: ${unknown.join(', ').slice(0, 200)}`,
		);
	}
	if (!names.includes(columns.required))
		throw new CommandError(`There is no column ${columns.required}: it is what records are known by.`);
	if (new Set(names).size !== names.length) throw new CommandError('A column is named twice.');
	return { line: number, names, delimiter };
}
