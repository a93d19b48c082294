import { describe, expect, test } from 'vitest';
import { contactColumns } from './import-contacts.js';
import { maxRecordBytes, readCsv, readNdjson, type SourceRecord } from './read-records.js';

async function* cut(file: string | Buffer, size: number): AsyncGenerator<Buffer> {
	const bytes = Buffer.from(file);
	for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size);
}

const readers = { csv: readCsv, ndjson: readNdjson };

/** Reads a file in pieces of this many bytes. @returns its records, and the message that has ended the reading, if any */
async function read(format: keyof typeof readers, file: string | Buffer, size = 65_536) {
	const records: SourceRecord[] = [];
	try {
		for await (const record of readers[format](cut(file, size), contactColumns)) records.push(record);
	} catch (error) {
		return { records, failure: (error as Error).message };
	}
	return { records };
}

/** The records as `line bitrix_id name` or `line: reason`. */
async function summary(file: string | Buffer, size?: number): Promise<string[]> {
	const { records, failure } = await read('csv', file, size);
	expect(failure).toBeUndefined();
	return records.map((record) =>
		'error' in record
			? `${record.line}: ${record.error}`
			: `${record.line} ${record.fields.bitrix_id} ${record.fields.name}`,
	);
}

describe('CSV', () => {
	test.each([
		['CRLF, and no line end after the last', 'bitrix_id,name\r\n1,a\r\n2,b'],
		['a byte order mark, and quotes around everything', '\uFEFF"bitrix_id","name"\n"1","a"\n"2","b"\n'],
		['white space around the names of columns', ' bitrix_id , name\n1,a\n2,b\n'],
	])('%s', async (_, file) => {
		for (const size of [1, 65_536]) expect(await summary(file, size)).toEqual(['2 1 a', '3 2 b']);
	});

	test('semicolons, as Excel writes them in locales with a decimal comma', async () => {
		const file = '\uFEFFbitrix_id;name;company_ids\r\n1;"a; b";7,1\r\n2;"line\r\ntwo";""\r\n3;a;b;c\r\n';
		expect(await read('csv', file)).toEqual({
			records: [
				{ line: 2, fields: { bitrix_id: '1', name: 'a; b', company_ids: '7,1' } },
				{ line: 3, fields: { bitrix_id: '2', name: 'line\ntwo', company_ids: null } },
				{ line: 5, error: 'more columns than the first line: a value with a semicolon needs double quotes' },
			],
		});
	});

	test('empty lines are skipped, but counted', async () => {
		expect(await summary('\n\r\nbitrix_id,name\n\n1,a\n\r\n\n2,b\n\n')).toEqual(['5 1 a', '8 2 b']);
	});

	test.each([1, 3, 65_536])(
		'in pieces of %d bytes: commas, quotes, line breaks and characters of four bytes',
		async (size) => {
			const file = '\uFEFFbitrix_id,name\r\n1,"a, ""b"""\r\n2,"Иван 🙂\r\n\r\nline, three"\r\n3,\'x\r\n';
			expect(await summary(file, size)).toEqual(['2 1 a, "b"', '3 2 Иван 🙂\n\nline, three', "6 3 'x"]);
		},
	);

	test.each([
		['', 'The file is empty'],
		['\uFEFF\n\r\n', 'The file is empty'],
		['name,phone\n1,2\n', 'There is no column bitrix_id'],
		['bitrix_id,\n1,\n', 'it has others'],
		['bitrix_id;name,phone\n1;a\n', 'it has others: bitrix_id;name'],
		['BITRIX_ID,name\n1,a\n', 'it has others: BITRIX_ID'],
		['bitrix_id,__proto__\n1,a\n', 'it has others: __proto__'],
		['bitrix_id,name,name\n1,a,b\n', 'A column is named twice'],
		['\nbitrix_id,na"me\n1,a\n', "can't be read"],
		['bitrix_id,"name\n1,a\n', "can't be read"],
		[Buffer.from([0x62, 0xff, 0x0a]), "can't be read: not valid UTF-8"],
		[`bitrix_id,${'x'.repeat(maxRecordBytes)}\n1,a\n`, 'longer than'],
	])('wrong column names fail before any record, with a short line: %j', async (file, message) => {
		const { records, failure } = await read('csv', file);
		expect(records).toEqual([]);
		expect(failure).toContain(message);
		expect(failure).not.toContain('\n');
		expect(failure?.length).toBeLessThan(500);
	});

	const around = (broken: string | Buffer) =>
		Buffer.concat([Buffer.from('bitrix_id,name\n1,a\n'), Buffer.from(broken), Buffer.from('\n3,"c, d"\n4,e\n')]);

	test.each([
		['a quote within a field without quotes', '2,b "x" c', 'a quote is where none may be'],
		['too many columns', '2,b,c', 'more columns than the first line: a value with a comma needs double quotes'],
		['too few columns', '2', 'fewer columns than the first line'],
		['a byte that is not UTF-8', Buffer.from([0x32, 0x2c, 0xff]), 'not valid UTF-8'],
		['a character that is cut off', Buffer.from([0x32, 0x2c, 0xd0]), 'not valid UTF-8'],
	])('only a broken record is refused, and all others are kept: %s', async (_, broken, reason) => {
		const expected = ['2 1 a', `3: ${reason}`, '4 3 c, d', '5 4 e'];
		for (const size of [5, 65_536]) expect(await summary(around(broken), size)).toEqual(expected);
	});

	test('bytes that are not UTF-8 within a record of several lines', async () => {
		const broken = Buffer.concat([Buffer.from('2,"b\n'), Buffer.from([0xff]), Buffer.from('\nc"')]);
		expect(await summary(around(broken))).toEqual(['2 1 a', '3: not valid UTF-8', '6 3 c, d', '7 4 e']);
	});

	const open = 'a quote is opened there, and none closes it at the end of a field';
	const tooLong = `a record is longer than ${maxRecordBytes} bytes, or a quote is opened there and not closed`;
	test.each([
		['a quote that nothing closes', '3,"c\n4,d\n', open],
		['a quote that the quote of a later record seems to close', '3,"c\n4,"d, e"\n5,f\n', open],
		['text after a closing quote', '3,"c" d\n4,e\n', open],
		['a quote that nothing closes within 1 MiB', `3,"c\n${'4,d\n'.repeat(300_000)}`, tooLong],
		['a field of more than 1 MiB', `3,${'c'.repeat(maxRecordBytes + 1)}\n4,d\n`, tooLong],
		['very many columns', `3,${','.repeat(3 * maxRecordBytes)}\n4,d\n`, tooLong],
		['very many misplaced quotes', `3,c${'"'.repeat(500_000)}\n4,d\n`, 'more than 100 quotes are where none may be'],
	])('ends the reading with its line, after all records before it: %s', async (_, broken, reason) => {
		for (const size of [1000, 65_536]) {
			const { records, failure } = await read('csv', `bitrix_id,name\r\n1,"a\r\n\r\na"\r\n\r\n2,b\r\n${broken}`, size);
			expect(failure).toBe(`The file can't be read from line 7 on: ${reason}.`);
			expect(records.slice(0, 2).map(({ line }) => line)).toEqual([2, 6]);
		}
	});
});

describe('NDJSON', () => {
	const good = Array.from({ length: 20 }, (_, index) => ({ bitrix_id: index, name: `Имя "${index}" {}[],🙂\u2028` }));
	const records = good.map((fields, index) => ({ line: index + 1, fields }));
	const lines = good.map((contact) => JSON.stringify(contact));

	test.each([
		['LF', `${lines.join('\n')}\n`],
		['CRLF', `${lines.join('\r\n')}\r\n`],
		['a byte order mark, and no line end after the last', `\uFEFF${lines.join('\n')}`],
	])('one object per line: %s', async (_, file) => {
		for (const size of [1, 3, 65_536]) expect(await read('ndjson', file, size)).toEqual({ records });
	});

	test('an array as the command prints it, and blank lines, which count as lines', async () => {
		expect((await read('ndjson', `[\n \t\r\n${lines.join(',\n')}\n]\n`)).records).toEqual(
			records.map(({ line, fields }) => ({ line: line + 2, fields })),
		);
		expect(await read('ndjson', '')).toEqual({ records: [] });
		expect(await read('ndjson', '[]\n')).toEqual({ records: [] });
	});

	test.each([
		['no JSON', '{"bitrix_id":2', 'not a JSON object'],
		['two objects', '{"bitrix_id":2}{"bitrix_id":3}', 'not a JSON object'],
		['a list', '[{"bitrix_id":2}]', 'not a JSON object'],
		['null', 'null', 'not a JSON object'],
		['U+0000', '{"bitrix_id":2}\0{"bitrix_id":3', 'not a JSON object'],
		['not UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'not valid UTF-8'],
	])('only a wrong line is refused: %s', async (_, line, error) => {
		const file = Buffer.concat([
			Buffer.from('{"bitrix_id":1}\n'),
			Buffer.from(line),
			Buffer.from('\n\n{"bitrix_id":4}\n'),
		]);
		expect((await read('ndjson', file)).records).toEqual([
			{ line: 1, fields: { bitrix_id: 1 } },
			{ line: 2, error },
			{ line: 4, fields: { bitrix_id: 4 } },
		]);
	});

	test('an error of the source fails the reading, and never counts as the end of the file', async () => {
		async function* broken(): AsyncGenerator<Buffer> {
			yield Buffer.from('{"bitrix_id":1}\n');
			throw new Error('read failed');
		}
		await expect(async () => {
			for await (const record of readNdjson(broken())) expect(record).toMatchObject({ line: 1 });
		}).rejects.toThrow('read failed');
	});
});
