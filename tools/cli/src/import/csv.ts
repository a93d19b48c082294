import { CommandError } from '../errors.js';
import { type Columns, linesOf, maxRecordLength, type SourceRecord, unreadable } from './lines.js';

const notClosed = 'a quote is opened there, and none closes it at the end of a field';
const tooLong = `a record is longer than ${maxRecordLength} bytes, or a quote is not closed`;

/**
 * Reads CSV that begins with a line of column names. An empty field is null.
 *
 * @throws CommandError when the column names are wrong, or when the end of a record is unknown, because of a quote or because the
 *   record is too long. Earlier records are returned before.
 */
export async function* readCsv(chunks: AsyncIterable<Buffer>, columns: Columns): AsyncGenerator<SourceRecord> {
	let names: readonly string[] | undefined;
	for await (const { line, values, hasStrayQuote } of rowsOf(chunks)) {
		if (names === undefined) {
			if (hasStrayQuote) throw unreadable(line, notClosed);
			names = checkNames(values, columns);
		} else if (hasStrayQuote) {
			yield { line, error: 'a quote within a value: the value needs quotes, and this one is doubled' };
		} else if (values.length > names.length) {
			yield { line, error: 'more columns than the first line: a value with a separator needs quotes' };
		} else if (values.length < names.length) {
			yield { line, error: 'fewer columns than the first line' };
		} else {
			yield { line, fields: Object.fromEntries(names.map((name, index) => [name, values[index] || null])) };
		}
	}
	if (names === undefined) throw new CommandError('The file is empty: it must begin with a line of column names.');
}

/** A quoted value from within, up to the quote that closes it or to the end of the line. */
const quotedText = /[^"]*(?:""[^"]*)*/y;

/**
 * The rows of CSV by RFC 4180, with LF or CRLF, but for blank ones. A quote within a value that does not begin with one opens nothing.
 * U+FFFD stands for bytes that are not UTF-8.
 */
async function* rowsOf(chunks: AsyncIterable<Buffer>) {
	let separator: string | undefined;
	let line = 0;
	let row = { line: 1, values: [] as string[], hasStrayQuote: false };
	let length = 0;
	/** The value so far whose closing quote is on a later line. */
	let open: string | undefined;
	for await (const bytes of linesOf(chunks)) {
		line++;
		if (open === undefined) [row, length] = [{ line, values: [], hasStrayQuote: false }, 0];
		length += bytes.length + 1;
		if (length > maxRecordLength) throw unreadable(row.line, tooLong);
		const text = bytes.toString().replace(line === 1 ? /^\uFEFF|\r$/g : /\r$/, '');
		if (text !== '') separator ??= separatorOf(text);
		for (let at = 0; at <= text.length; at++) {
			if (open === undefined && text[at] !== '"') {
				const [value = ''] = text.slice(at).split(separator ?? ',', 1);
				row.hasStrayQuote ||= value.includes('"');
				row.values.push(value);
				at += value.length;
			} else {
				quotedText.lastIndex = open === undefined ? at + 1 : at;
				const [quoted = ''] = quotedText.exec(text) ?? [];
				at = quotedText.lastIndex;
				open = (open ?? '') + quoted.replaceAll('""', '"');
				if (at === text.length) open += '\n';
				else if (at + 1 < text.length && text[at + 1] !== separator) throw unreadable(row.line, notClosed);
				else {
					row.values.push(open);
					open = undefined;
					at++;
				}
			}
		}
		const isBlank = row.values.length === 1 && row.values[0] === '';
		if (open === undefined && !isBlank) yield row;
	}
	if (open !== undefined) throw unreadable(row.line, notClosed);
}

/** In locales with a decimal comma Excel separates by semicolons. */
const separatorOf = (firstLine: string) => (firstLine.includes(';') && !firstLine.includes(',') ? ';' : ',');

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
