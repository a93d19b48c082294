import { describe, expect, test } from 'vitest';
import { contactColumns } from './contacts.js';
import { readCsv } from './csv.js';
import { maxRecordLength, type SourceRecord } from './lines.js';
import { readNdjson } from './ndjson.js';

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
	test.each<[string, string, string[]]>([
		['CRLF, and no line end after the last', 'bitrix_id,name\r\n1,a\r\n2,b', ['2 1 a', '3 2 b']],
		[
			'a byte order mark, and quotes around everything',
			'\uFEFF"bitrix_id","name"\n"1","a"\n"2","b"\n',
			['2 1 a', '3 2 b'],
		],
		['white space around the names of columns', ' bitrix_id , name\n1,a\n2,b\n', ['2 1 a', '3 2 b']],
		['empty lines, which are skipped, but counted', '\n\r\nbitrix_id,name\n\n1,a\n\r\n\n2,b\n\n', ['5 1 a', '8 2 b']],
		[
			'semicolons, as Excel writes them in locales with a decimal comma',
			'\uFEFFbitrix_id;name\r\n1;"a; b"\r\n2;"line\r\ntwo"\r\n3;\r\n',
			['2 1 a; b', '3 2 line\ntwo', '5 3 null'],
		],
		[
			'commas, quotes, line breaks and characters of four bytes',
			'\uFEFFbitrix_id,name\r\n1,"a, ""b"""\r\n2,"Иван 🙂\r\n\r\nline, three"\r\n3,\'x\r\n',
			['2 1 a, "b"', '3 2 Иван 🙂\n\nline, three', "6 3 'x"],
		],
		[
			'another number of columns, of which only the record is refused',
			'bitrix_id,name\n1\n2,b,c\n3,d\n',
			[
				'2: fewer columns than the first line',
				'3: more columns than the first line: a value with a separator needs quotes',
				'4 3 d',
			],
		],
		[
			'a quote within a value without quotes, of which only the record is refused',
			'bitrix_id,name\n1,4" pipe, 5" pipe\n2,d "x"\n\n"3","line\ntwo"\n4,a"\n5,b\n',
			[
				'2: a quote within a value: the value needs quotes, and this one is doubled',
				'3: a quote within a value: the value needs quotes, and this one is doubled',
				'5 3 line\ntwo',
				'7: a quote within a value: the value needs quotes, and this one is doubled',
				'8 5 b',
			],
		],
		[
			'a quoted value behind such a quote, whose text is never taken for records',
			'bitrix_id,name\n2"a,"b\n3,c\n"\n4,d\n',
			['2: a quote within a value: the value needs quotes, and this one is doubled', '5 4 d'],
		],
	])('%s', async (_, file, expected) => {
		for (const size of [1, 3, 65_536]) expect(await summary(file, size)).toEqual(expected);
	});

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
		[Buffer.from([0x62, 0xff, 0x0a]), 'it has others'],
		[`bitrix_id,${'x'.repeat(2 * maxRecordLength)}\n1,a\n`, 'longer than'],
	])('wrong column names fail before any record, with a short line: %j', async (file, message) => {
		const { records, failure } = await read('csv', file);
		expect(records).toEqual([]);
		expect(failure).toContain(message);
		expect(failure).not.toContain('\n');
		expect(failure?.length).toBeLessThan(500);
	});

	const quote = 'a quote is opened there, and none closes it at the end of a field';
	const tooLong = `a record is longer than ${maxRecordLength} bytes, or a quote is not closed`;
	test.each([
		['a quote that nothing closes', '3,"c\n4,d\n', quote],
		['a quote that the quote of a later record seems to close', '3,"c\n4,"d, e"\n5,f\n', quote],
		['text after a closing quote', '3,"c" d\n4,e\n', quote],
		['a quote that nothing closes for long', `3,"c\n${'4,d\n'.repeat(300_000)}`, tooLong],
		['a field that is too long', `3,${'c'.repeat(2 * maxRecordLength)}\n4,d\n`, tooLong],
		['very many columns', `3,${','.repeat(3 * maxRecordLength)}\n4,d\n`, tooLong],
	])('ends the reading with its line, after all records before it: %s', async (_, broken, reason) => {
		for (const size of [1000, 65_536]) {
			const { records, failure } = await read('csv', `bitrix_id,name\r\n1,"a\r\n\r\na"\r\n\r\n2,b\r\n${broken}`, size);
			expect(failure).toBe(`The file can't be read from line 7 on: ${reason}.`);
			expect(records.map(({ line }) => line)).toEqual([2, 6]);
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
		expect(await read('ndjson', '[]\n')).toEqual({ records: [] });
	});

	test('a line that is too long ends the reading, after all records before it', async () => {
		const { records, failure } = await read(
			'ndjson',
			`{"bitrix_id":1}\n{"name":"${'x'.repeat(2 * maxRecordLength)}"}\n`,
		);
		expect(records).toEqual([{ line: 1, fields: { bitrix_id: 1 } }]);
		expect(failure).toBe(`The file can't be read from line 2 on: a line is longer than ${maxRecordLength} bytes.`);
	});

	test.each([
		['no JSON', '{"bitrix_id":2'],
		['two objects', '{"bitrix_id":2}{"bitrix_id":3}'],
		['a list', '[{"bitrix_id":2}]'],
		['null', 'null'],
		['U+0000', '{"bitrix_id":2}\0{"bitrix_id":3'],
		['not UTF-8', Buffer.from('{"name":"\xff"}', 'latin1')],
	])('only a wrong line is refused: %s', async (_, line) => {
		const file = Buffer.concat([
			Buffer.from('{"bitrix_id":1}\n'),
			Buffer.from(line),
			Buffer.from('\n\n{"bitrix_id":4}\n'),
		]);
		expect((await read('ndjson', file)).records).toEqual([
			{ line: 1, fields: { bitrix_id: 1 } },
			{ line: 2, error: 'not a JSON object in UTF-8' },
			{ line: 4, fields: { bitrix_id: 4 } },
		]);
	});
});

test.each(['csv', 'ndjson'] as const)(
	'an error of the source never counts as the end of the file: %s',
	async (format) => {
		async function* broken(): AsyncGenerator<Buffer> {
			yield Buffer.from(format === 'csv' ? 'bitrix_id\n1\n' : '{"bitrix_id":1}\n');
			throw new Error('read failed');
		}
		await expect(async () => {
			for await (const record of readers[format](broken(), contactColumns)) expect(record).toHaveProperty('fields');
		}).rejects.toThrow('read failed');
	},
);

test.each(['csv', 'ndjson'] as const)('a line that does not end is never held whole: %s', async (format) => {
	let given = 0;
	async function* endless(): AsyncGenerator<Buffer> {
		for (; given < 100; given++) yield Buffer.alloc(65_536, 'x');
	}
	await expect(readers[format](endless(), contactColumns).next()).rejects.toThrow("can't be read from line 1 on");
	expect(given * 65_536).toBeLessThan(2 * maxRecordLength);
});
