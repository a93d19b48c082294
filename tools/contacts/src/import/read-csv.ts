import { contactColumnNames } from '@contacts/company-contacts/company-contact-columns.sql.js';
import { parse } from 'csv-parse/sync';
import { CommandError } from '../errors.js';
import { type Line, maxRecordBytes, readLines } from './lines.js';
import { decode, type SourceRecord } from './record.js';

/** The columns that a file may have, in any order, and the one that it must have. */
interface Columns {
	names: readonly string[];
	required: string;
}

/** The columns of a contacts file. `id` is the service's own and ignored. */
const contactColumns: Columns = { names: ['id', 'bitrix_id', ...contactColumnNames], required: 'bitrix_id' };

/** The longest line of column names, in bytes. */
const maxHeadBytes = 65_536;

/** The maximum number of line breaks in a record. Each line is an object in memory until its record ends. */
const maxRecordLines = 10_000;

/**
 * Reads CSV (RFC 4180, with LF or CRLF) that begins with a line of column names. An empty field is null. In locales with a
 * decimal comma Excel separates by semicolons: a first line with semicolons and without a comma means that.
 *
 * The file is split into records before parsing, so that a record with a broken quote does not spoil
 * its neighbours.
 *
 * @throws CommandError when the header is wrong, as no record could be understood
 */
export async function* readCsv(chunks: AsyncIterable<Buffer>, columns = contactColumns): AsyncGenerator<SourceRecord> {
	let head: string[] | undefined;
	let delimiter = ',';
	for await (const record of readRecords(readLines(chunks), () => delimiter)) {
		if (head === undefined && record.bytes?.includes(';') && !record.bytes.includes(',')) delimiter = ';';
		const values = parseRecord(record, head === undefined ? maxHeadBytes : maxRecordBytes, delimiter);
		if (head === undefined) {
			head = checkHead(values, columns);
		} else if (typeof values === 'string') {
			yield { line: record.line, error: values };
		} else if (values.length !== head.length) {
			yield { line: record.line, error: 'not as many columns as the head' };
		} else {
			yield { line: record.line, fields: Object.fromEntries(head.map((name, index) => [name, values[index] || null])) };
		}
	}
	if (head === undefined) throw new CommandError('The file is empty: it must begin with a line of column names.');
}

const misplacedQuote = 'a quote is where none may be';

interface RawRecord {
	line: number;
	bytes: Buffer | undefined;
	/** Set when a quote is opened and not closed. */
	open?: boolean;
}

/** Joins the lines of a record that has line breaks in quotes: a record ends where the number of its quotes is even. */
async function* readRecords(lines: AsyncIterable<Line>, delimiter: () => string): AsyncGenerator<RawRecord> {
	let held: { line: number; bytes: Buffer }[] = [];
	let heldBytes = 0;

	/** Adds one line. @returns the records that it completes */
	function* take(line: number, bytes: Buffer | undefined): Generator<RawRecord> {
		if (bytes === undefined) {
			yield* giveUp();
			yield { line, bytes };
		} else if (held.length === 0 && !hasOpenQuote(bytes)) {
			if (bytes.length > 0) yield { line, bytes };
		} else {
			const closes = held.length > 0 && hasOpenQuote(bytes);
			held.push({ line, bytes });
			heldBytes += bytes.length + 1;
			if (closes) {
				const joined = held.flatMap((part, index) => (index === 0 ? [part.bytes] : [Buffer.from('\n'), part.bytes]));
				const whole = { line: held[0]?.line ?? line, bytes: Buffer.concat(joined) };
				if (parseRecord(whole, maxRecordBytes, delimiter()) === misplacedQuote) {
					// This quote does not close the held one. It opens the next record, after a quote that was never closed.
					yield* giveUpFirst();
				} else {
					held = [];
					heldBytes = 0;
					yield whole;
				}
			} else if (heldBytes > maxRecordBytes || held.length > maxRecordLines) {
				yield* giveUp();
			}
		}
	}

	/** The first held line opens a quote that nothing closes. Refuses only that line, and reads the others again. */
	function* giveUpFirst(): Generator<RawRecord> {
		const [opened, ...others] = held;
		held = [];
		heldBytes = 0;
		if (opened !== undefined) yield { ...opened, open: true };
		for (const { line, bytes } of others) yield* take(line, bytes);
	}

	function* giveUp(): Generator<RawRecord> {
		while (held.length > 0) yield* giveUpFirst();
	}

	for await (const { number, bytes } of lines) yield* take(number, bytes);
	yield* giveUp();
}

function hasOpenQuote(bytes: Buffer): boolean {
	let open = false;
	for (let at = bytes.indexOf(0x22); at !== -1; at = bytes.indexOf(0x22, at + 1)) open = !open;
	return open;
}

/** @returns the fields, or the reason why they can't be read */
function parseRecord({ bytes, open }: RawRecord, maxBytes: number, delimiter: string): string[] | string {
	if (open) return 'a quote is opened and not closed';
	if (bytes === undefined || bytes.length > maxBytes) return `longer than ${maxBytes} bytes`;
	const text = decode(bytes);
	if (text === undefined) return 'not valid UTF-8';
	if (text.includes('\0')) return "a character that can't be stored";
	// The parser takes a hundred times as long.
	if (!text.includes('"')) return text.split(delimiter);
	// The text is one record, so line breaks do not end it.
	try {
		return (parse(text, { delimiter, record_delimiter: '\0', relax_column_count: true }) as string[][])[0] ?? [];
	} catch {
		return misplacedQuote;
	}
}

function checkHead(names: string[] | string, columns: Columns): string[] {
	if (typeof names === 'string') throw new CommandError(`The line of column names can't be read: ${names}.`);
	const known = names.map((name) => name.trim());
	const unknown = known.filter((name) => !columns.names.includes(name));
	if (unknown.length > 0) {
		throw new CommandError(
			`The first line must name columns among ${columns.names.join(', ')}; it has others: ${unknown.join(', ').slice(0, 200)}`,
		);
	}
	if (!known.includes(columns.required))
		throw new CommandError(`There is no column ${columns.required}: it is what records are known by.`);
	if (new Set(known).size !== known.length) throw new CommandError('A column is named twice.');
	return known;
}
