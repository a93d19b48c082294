import { describe, expect, test } from 'vitest';
import { contactColumns } from './import-contacts.js';
import { maxRecordBytes } from './lines.js';
import { readCsv } from './read-csv.js';
import type { SourceRecord } from './records.js';

async function* cut(file: string | Buffer, size: number): AsyncGenerator<Buffer> {
	const bytes = Buffer.from(file);
	for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size);
}

/** Reads a file in pieces of this many bytes. */
async function read(file: string | Buffer, size = 65_536): Promise<SourceRecord[]> {
	const records: SourceRecord[] = [];
	for await (const record of readCsv(cut(file, size), contactColumns)) records.push(record);
	return records;
}

/** The records as `line bitrix_id name` or `line: reason`. */
async function summary(file: string | Buffer, size?: number): Promise<string[]> {
	return (await read(file, size)).map((record) =>
		'error' in record
			? `${record.line}: ${record.error}`
			: `${record.line} ${record.fields.bitrix_id} ${record.fields.name}`,
	);
}

const stray = 'a quote is where none may be';

describe('well-formed files', () => {
	test.each([
		['LF', 'bitrix_id,name\n1,a\n2,b\n'],
		['CRLF', 'bitrix_id,name\r\n1,a\r\n2,b\r\n'],
		['no line end after the last', 'bitrix_id,name\n1,a\n2,b'],
		['a byte order mark', '\uFEFFbitrix_id,name\n1,a\n2,b\n'],
		['quotes around everything', '"bitrix_id","name"\n"1","a"\n"2","b"\n'],
		['white space around the names of columns', ' bitrix_id , name\n1,a\n2,b\n'],
	])('%s', async (_, file) => {
		expect(await summary(file)).toEqual(['2 1 a', '3 2 b']);
	});

	test('semicolons, as Excel writes them in locales with a decimal comma', async () => {
		const file = '\uFEFFbitrix_id;name;company_ids\r\n1;"a; b";7,1\r\n2;"line\r\ntwo";\r\n3;a;b;c\r\n';
		expect(await read(file)).toEqual([
			{ line: 2, fields: { bitrix_id: '1', name: 'a; b', company_ids: '7,1' } },
			{ line: 3, fields: { bitrix_id: '2', name: 'line\ntwo', company_ids: null } },
			{ line: 5, error: 'not as many columns as the head' },
		]);
	});

	test('empty lines are skipped, but counted', async () => {
		expect(await summary('\n\r\nbitrix_id,name\n\n1,a\n\r\n\n2,b\n\n')).toEqual(['5 1 a', '8 2 b']);
	});

	test('accepts all columns in any order, and the service’s own id', async () => {
		const columns = 'perplexity_reason,trouble_contact,id,assigned_by_id,name,company_ids,phone,bitrix_id';
		expect(await read(`${columns}\nr,true,77,5,n,"1,2",+79001234567,9\n`)).toEqual([
			{
				line: 2,
				fields: {
					perplexity_reason: 'r',
					trouble_contact: 'true',
					id: '77',
					assigned_by_id: '5',
					name: 'n',
					company_ids: '1,2',
					phone: '+79001234567',
					bitrix_id: '9',
				},
			},
		]);
	});

	test('an empty field is null, quoted or not', async () => {
		expect(await read('bitrix_id,name,phone\n1,,""\n')).toEqual([
			{ line: 2, fields: { bitrix_id: '1', name: null, phone: null } },
		]);
	});

	test.each([1, 2, 3, 7, 65_536])(
		'in pieces of %d bytes: commas, quotes, line breaks and characters of four bytes',
		async (size) => {
			const file = '\uFEFFbitrix_id,name\r\n1,"a, ""b"""\r\n2,"Иван 🙂\r\n\r\nline, three"\r\n3,\'x\r\n';
			expect(await summary(file, size)).toEqual(['2 1 a, "b"', '3 2 Иван 🙂\n\nline, three', "6 3 'x"]);
		},
	);
});

describe('the line of column names', () => {
	test.each([
		['', 'The file is empty'],
		['\uFEFF', 'The file is empty'],
		['\n\r\n\n', 'The file is empty'],
		['name,phone\n1,2\n', 'There is no column bitrix_id'],
		['bitrix_id,nome\n1,a\n', 'it has others: nome'],
		['bitrix_id,\n1,\n', 'it has others'],
		['bitrix_id;nome\n1;a\n', 'it has others: nome'],
		['bitrix_id;name,phone\n1;a\n', 'it has others: bitrix_id;name'],
		['BITRIX_ID,name\n1,a\n', 'it has others: BITRIX_ID'],
		['bitrix_id,__proto__\n1,a\n', 'it has others: __proto__'],
		['bitrix_id,name,name\n1,a,b\n', 'A column is named twice'],
		['bitrix_id,na"me\n1,a\n', "can't be read"],
		['bitrix_id,"name\n1,a\n', "can't be read"],
		[Buffer.from([0x62, 0xff, 0x0a]), "can't be read: not valid UTF-8"],
		[`bitrix_id,${'x'.repeat(maxRecordBytes)}\n1,a\n`, "can't be read: longer than"],
	])('wrong: %j fails before any record, with a short one-line message', async (file, message) => {
		const error = await read(file).then(
			() => undefined,
			(thrown: Error) => thrown,
		);
		expect(error?.name).toBe('Error');
		expect(error?.message).toContain(message);
		expect(error?.message).not.toContain('\n');
		expect(error?.message.length).toBeLessThan(500);
	});
});

describe('only a broken record is refused, and all others are kept', () => {
	const around = (broken: string | Buffer) =>
		Buffer.concat([Buffer.from('bitrix_id,name\n1,a\n'), Buffer.from(broken), Buffer.from('\n3,"c, d"\n4,e\n')]);

	test.each([
		['a quote within a field without quotes', '2,b "x" c', stray],
		['a quote at the end of a field without quotes', '2,b"', stray],
		['hundred of them', `2,b${'"'.repeat(100)}`, stray],
		['too many columns', '2,b,c', 'not as many columns as the head'],
		['too few columns', '2', 'not as many columns as the head'],
		['a byte that is not UTF-8', Buffer.from([0x32, 0x2c, 0xff]), 'not valid UTF-8'],
		['a character that is cut off', Buffer.from([0x32, 0x2c, 0xd0]), 'not valid UTF-8'],
		['a surrogate in UTF-8', Buffer.from([0x32, 0x2c, 0xed, 0xa0, 0x80]), 'not valid UTF-8'],
	])('%s', async (_, broken, reason) => {
		const expected = ['2 1 a', `3: ${reason}`, '4 3 c, d', '5 4 e'];
		expect(await summary(around(broken))).toEqual(expected);
		expect(await summary(around(broken), 5)).toEqual(expected);
	});

	test('a line of exactly 1 MiB is read', async () => {
		const name = 'b'.repeat(maxRecordBytes - 2);
		expect(await summary(around(`2,${name}`))).toEqual(['2 1 a', `3 2 ${name}`, '4 3 c, d', '5 4 e']);
	});

	test('bytes that are not UTF-8 within a record of several lines', async () => {
		const broken = Buffer.concat([Buffer.from('2,"b\n'), Buffer.from([0xff]), Buffer.from('\nc"')]);
		expect(await summary(around(broken))).toEqual(['2 1 a', '3: not valid UTF-8', '6 3 c, d', '7 4 e']);
	});
});

describe('a record without a certain end ends the reading, after all records before it', () => {
	/** The records before the end, and the message. */
	async function readBroken(file: string, size = 65_536) {
		const lines: number[] = [];
		const failure = await (async () => {
			for await (const { line } of readCsv(cut(file, size), contactColumns)) lines.push(line);
		})().catch(({ message }: Error) => message);
		return { lines, failure };
	}
	const from = (line: number, reason: string) => `The file can't be read from line ${line} on: ${reason}.`;
	const open = 'a quote is opened there, and none closes it at the end of a field';
	const tooLong = `a record is longer than ${maxRecordBytes} bytes, or a quote is opened there and not closed`;
	const good = 'bitrix_id,name\r\n1,"a\r\n\r\na"\r\n\r\n2,b\r\n';

	test.each([
		['a quote that nothing closes', '3,"c\n4,d\n', open],
		['a quote that nothing closes in the last line', '3,"c', open],
		['a quote that the quote of a later record seems to close', '3,"c\n4,"d, e"\n5,f\n', open],
		['text after a closing quote', '3,"c" d\n4,e\n', open],
		['a quote that nothing closes within 1 MiB', `3,"c\n${'4,d\n'.repeat(300_000)}`, tooLong],
		[
			'quoted fields of more than 1 MiB together',
			`3,${`"${'c'.repeat(600_000)}",`.repeat(2)}\n4,d\n`,
			`longer than ${maxRecordBytes} bytes`,
		],
		['a line of more than 1 MiB', `3,${'c'.repeat(maxRecordBytes)}\n4,d\n`, `longer than ${maxRecordBytes} bytes`],
		[
			'very many quotes where none may be',
			`3,c${'"'.repeat(500_000)}\n4,d\n`,
			'more than 100 quotes are where none may be',
		],
	])('%s', async (_, broken, reason) => {
		for (const size of [7, 65_536]) {
			const { lines, failure } = await readBroken(good + broken, size);
			expect(failure).toBe(from(7, reason));
			expect(lines.slice(0, 2)).toEqual([2, 6]);
		}
	});

	test('the records before it are all returned, however many they are', async () => {
		const records = Array.from({ length: 5000 }, (_, index) => `${index + 1},"name, of ${index}"\n`);
		const { lines, failure } = await readBroken(`bitrix_id,name\n${records.join('')}9999,"a\n1,b\n`);
		expect(failure).toBe(from(5002, open));
		expect(lines).toEqual(records.map((_, index) => index + 2));
	});
});
