import { describe, expect, test } from 'vitest';
import { maxRecordBytes } from './lines.js';
import { readNdjson, type SourceRecord } from './records.js';

async function* cut(file: string | Buffer, size: number): AsyncGenerator<Buffer> {
	const bytes = Buffer.from(file);
	for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size);
}

async function read(file: string | Buffer, size = 65_536): Promise<SourceRecord[]> {
	const records: SourceRecord[] = [];
	for await (const record of readNdjson(cut(file, size))) records.push(record);
	return records;
}

const good = (count: number) =>
	Array.from({ length: count }, (_, index) => ({
		bitrix_id: index + 1,
		name: `Имя "${index}" {}[],🙂`,
		phone: null,
	}));
const asRead = (contacts: Record<string, unknown>[], firstLine = 1) =>
	contacts.map((fields, index) => ({ line: index + firstLine, fields }));

describe('NDJSON', () => {
	const lines = (contacts: object[]) => contacts.map((contact) => JSON.stringify(contact));

	test.each([
		['LF', '\n', '\n'],
		['CRLF', '\r\n', '\r\n'],
		['no line end after the last', '\n', ''],
	])('one object per line: %s', async (_, between, end) => {
		const file = `\uFEFF${lines(good(20)).join(between)}${end}`;
		for (const size of [1, 3, 65_536]) {
			expect(await read(file, size)).toEqual(asRead(good(20)));
		}
	});

	test('blank lines are skipped, and count as lines', async () => {
		const file = ` \t\r\n{"bitrix_id":1}\n\n  \n{"bitrix_id":2}\n \n`;
		expect(await read(file)).toEqual([
			{ line: 2, fields: { bitrix_id: 1 } },
			{ line: 5, fields: { bitrix_id: 2 } },
		]);
	});

	test.each([
		['no JSON', '{"bitrix_id":2', 'not a JSON object'],
		['two objects', '{"bitrix_id":2}{"bitrix_id":3}', 'not a JSON object'],
		['a list', '[{"bitrix_id":2}]', 'not a JSON object'],
		['a number', '2', 'not a JSON object'],
		['null', 'null', 'not a JSON object'],
		['not UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'not valid UTF-8'],
		['more than 1 MiB', `"${'x'.repeat(maxRecordBytes)}"`, `longer than ${maxRecordBytes} bytes`],
	])('only a wrong line is refused: %s', async (_, line, error) => {
		const file = Buffer.concat([
			Buffer.from('{"bitrix_id":1}\n'),
			Buffer.from(line),
			Buffer.from('\n\n{"bitrix_id":4}\n'),
		]);
		expect(await read(file)).toEqual([
			{ line: 1, fields: { bitrix_id: 1 } },
			{ line: 2, error },
			{ line: 4, fields: { bitrix_id: 4 } },
		]);
	});

	test('an empty file has no records', async () => {
		expect(await read('')).toEqual([]);
	});

	test('U+2028 in a string ends no line', async () => {
		const file = `{"bitrix_id":1,"name":"a\u2028b"}\n{"bitrix_id":2}\n`;
		expect(await read(file)).toEqual(asRead([{ bitrix_id: 1, name: 'a\u2028b' }, { bitrix_id: 2 }]));
	});

	test('an error of the source fails the reading, and never counts as the end of the file', async () => {
		async function* broken(): AsyncGenerator<Buffer> {
			yield Buffer.from('{"bitrix_id":1}\n');
			throw new Error('read failed');
		}
		const lines: number[] = [];
		await expect(async () => {
			for await (const { line } of readNdjson(broken())) lines.push(line);
		}).rejects.toThrow('read failed');
		expect(lines).toEqual([1]);
	});
});
