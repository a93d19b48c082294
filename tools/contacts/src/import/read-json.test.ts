import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { CommandError } from '../errors.js';
import { maxRecordBytes } from './lines.js';
import { readJsonArray, readNdjson } from './read-json.js';
import type { SourceRecord } from './record.js';

async function* cut(file: string | Buffer, size: number): AsyncGenerator<Buffer> {
	const bytes = Buffer.from(file);
	for (let from = 0; from < bytes.length; from += size) yield bytes.subarray(from, from + size);
}

/** Reads all records, as slowly as a database would. @returns them, and the error */
async function read(reader: typeof readNdjson, file: string | Buffer, size = 65_536) {
	const records: SourceRecord[] = [];
	let failure: unknown;
	try {
		for await (const record of reader(cut(file, size))) {
			records.push(record);
			await nextTurn();
		}
	} catch (error) {
		failure = error;
	}
	return { records, failure };
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
			expect(await read(readNdjson, file, size)).toEqual({ records: asRead(good(20)), failure: undefined });
		}
	});

	test('blank lines are skipped, and count as lines', async () => {
		const file = ` \t\r\n{"bitrix_id":1}\n\n  \n{"bitrix_id":2}\n \n`;
		expect(await read(readNdjson, file)).toEqual({
			records: [
				{ line: 2, fields: { bitrix_id: 1 } },
				{ line: 5, fields: { bitrix_id: 2 } },
			],
			failure: undefined,
		});
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
		expect(await read(readNdjson, file)).toEqual({
			records: [
				{ line: 1, fields: { bitrix_id: 1 } },
				{ line: 2, error },
				{ line: 4, fields: { bitrix_id: 4 } },
			],
			failure: undefined,
		});
	});

	test('an empty file has no records', async () => {
		expect(await read(readNdjson, '')).toEqual({ records: [], failure: undefined });
	});
});

describe('a JSON array', () => {
	const expectFailure = (failure: unknown, place: number) => {
		expect(failure).toBeInstanceOf(CommandError);
		expect((failure as CommandError).message).toMatch(new RegExp(`breaks off after element ${place}\\.$`));
	};

	test.each([1, 5, 65_536])('of objects, in pieces of %d bytes, with a byte order mark', async (size) => {
		const file = `\uFEFF ${JSON.stringify(good(50), null, 1)}\n`;
		expect(await read(readJsonArray, file, size)).toEqual({ records: asRead(good(50)), failure: undefined });
	});

	test('that is empty has no records', async () => {
		expect(await read(readJsonArray, ' [ ]\n')).toEqual({ records: [], failure: undefined });
	});

	test('only an element that is not an object is refused', async () => {
		const found = await read(readJsonArray, '[{"bitrix_id":1},2,"x",null,[{"bitrix_id":3}],{"bitrix_id":4}]');
		const error = 'not a JSON object';
		expect(found).toEqual({
			records: [
				{ line: 1, fields: { bitrix_id: 1 } },
				...[2, 3, 4, 5].map((line) => ({ line, error })),
				{ line: 6, fields: { bitrix_id: 4 } },
			],
			failure: undefined,
		});
	});

	test('of very many elements that are not objects is read to its end', async () => {
		const { records, failure } = await read(readJsonArray, JSON.stringify(Array.from({ length: 5000 }, () => 1)));
		expect([records.length, failure]).toEqual([5000, undefined]);
	});

	const whole = Buffer.from(JSON.stringify(good(3000)));
	const begin = (index: number) => whole.indexOf(`{"bitrix_id":${index + 1},`);

	test.each([
		['within an element', begin(2500) + 20],
		['after a comma', begin(2500)],
		['before the last bracket', whole.length - 1],
	])('that is cut off %s returns everything before it and fails', async (_, length) => {
		const complete = length === whole.length - 1 ? 3000 : 2500;
		for (const size of [1000, 65_536, 1_000_000]) {
			const { records, failure } = await read(readJsonArray, whole.subarray(0, length), size);
			expect(records).toEqual(asRead(good(complete)));
			expectFailure(failure, complete);
		}
	});

	test.each([
		['nonsense', Buffer.from('nonsense,')],
		['a bracket too many', Buffer.from('],')],
		['a comma too many', Buffer.from(',')],
		['a byte that is not UTF-8', Buffer.from([0xff])],
		['a name that is not UTF-8', Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xff]), Buffer.from('"},')])],
	])('with %s in its middle returns everything before it and fails', async (_, broken) => {
		const file = Buffer.concat([whole.subarray(0, begin(2500)), broken, whole.subarray(begin(2500))]);
		for (const size of [1000, 65_536, 1_000_000]) {
			const { records, failure } = await read(readJsonArray, file, size);
			expect(records).toEqual(asRead(good(2500)));
			expectFailure(failure, 2500);
		}
	});

	test.each(['', ' \n', '{}', '{"bitrix_id":1}', '5', '"x"', 'null', 'nonsense', '[] []', '[] x'])(
		'is missing: %j fails',
		async (file) => {
			const { records, failure } = await read(readJsonArray, file);
			expect(records).toEqual([]);
			expectFailure(failure, 0);
		},
	);

	test('an error of the source fails the reading, and never counts as the end of the file', async () => {
		async function* broken(): AsyncGenerator<Buffer> {
			yield Buffer.from('[{"bitrix_id":1}]');
			throw new Error('read failed');
		}
		const places: number[] = [];
		await expect(async () => {
			for await (const { line } of readJsonArray(broken())) places.push(line);
		}).rejects.toBeInstanceOf(CommandError);
		expect(places).toEqual([1]);
	});
});
