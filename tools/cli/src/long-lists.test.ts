import { Readable, Writable } from 'node:stream';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { printRecords } from './output.js';
import { runContacts } from './run.js';
import { withStreams } from './streams.js';
import { contacts, environmentOf } from './testing/command.js';

/** More rows than a function of JavaScript takes arguments. */
const count = 150_000;

test.beforeAll(async () => {
	await database.sql`
		insert into direct_subscriptions (chat_id, started_at)
		select n, '2026-01-01T00:00:00Z'::timestamptz + make_interval(secs => n / 100) from generate_series(1, ${count}::int) n`;
});

/** Standard output of a reader that takes one piece after the other. */
function slowOutput() {
	const pieces: string[] = [];
	/** The most bytes that waited for the reader at once, beside the piece that it was taking. */
	let queued = 0;
	const stdout = new Writable({
		highWaterMark: 1,
		write(piece: Buffer, _encoding, done) {
			pieces.push(piece.toString());
			setImmediate(() => {
				queued = Math.max(queued, stdout.writableLength - piece.length);
				done();
			});
		},
	});
	return { stdout, pieces, queued: () => queued };
}

const stdin = Readable.from([]);

/** An array with a record on each line. */
const jsonOf = (records: object[]) => `[\n${records.map((record) => JSON.stringify(record)).join(',\n')}\n]\n`;

describe('a list of 150,000 rows', () => {
	test('is printed whole as a table', async () => {
		const { code, stdout, stderr } = await contacts(database.url, ['subscription', 'list']);
		expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
		const lines = stdout.trimEnd().split('\n');
		expect(lines).toHaveLength(count + 1);
		expect(lines[0]).toMatch(/^chat_id +state +started_at$/);
		expect(lines[1]).toMatch(/^150000 +active +2026-01-01 00:25$/);
	});

	test('is printed whole as JSON, with the format of a short one', async () => {
		const { code, stdout, stderr } = await contacts(database.url, ['subscription', 'list', '--json']);
		expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
		const records = JSON.parse(stdout) as { chat_id: number }[];
		expect(new Set(records.map(({ chat_id }) => chat_id)).size).toBe(count);
		expect(stdout === jsonOf(records)).toBe(true);
	});

	test.each([[[]], [['--json']]])('waits for a slow reader, page by page: %j', async (options) => {
		const { stdout, pieces, queued } = slowOutput();
		const args = ['subscription', 'list', '--limit', '20000', ...options];
		const code = await runContacts(args, environmentOf(database.url), { stdin, stdout, stderr: slowOutput().stdout });
		expect(code).toBe(0);
		expect(queued()).toBe(0);
		expect(pieces.join('').length).toBeGreaterThan(500_000);
		expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(200_000);
	});
});

describe('pages', () => {
	async function printed(pages: object[][], options = {}): Promise<string> {
		const { stdout, pieces } = slowOutput();
		async function* read() {
			yield* pages;
		}
		await withStreams({ stdin, stdout, stderr: stdout }, () => printRecords(read(), ['a', 'b'], options));
		return pieces.join('');
	}

	test('of a table get a new head where they have other columns or widths', async () => {
		const pages = [[{ a: 1 }, { a: 2, b: null }], [{ a: 3 }], [{ a: 345, b: 'x' }]];
		expect(await printed(pages)).toBe('a\n1\n2\n3\na    b\n345  x\n');
	});

	test('with a single record show its fields, also those that are no columns, but none that is empty', async () => {
		const record = { a: 1, created_at: '2026-11-22T18:57:31Z', b: null };
		for (const pages of [[[record]], [[], [record], []]])
			expect(await printed(pages)).toBe('a           1\ncreated_at  2026-11-22 18:57\n');
		expect(await printed([[record], [record]])).toBe('a           1\ncreated_at  2026-11-22 18:57\na\n1\n');
	});

	test('form one array as JSON, which is empty when there are none', async () => {
		const records = [{ a: 1, b: ['x', '\u009b'] }, { a: {}, b: [] }, { a: null }];
		const pages = [records.slice(0, 2), [], records.slice(2)];
		expect(await printed(pages, { json: true })).toBe(jsonOf(records).replace('\u009b', '\\u009b'));
		for (const none of [[], [[]]]) {
			expect(await printed(none, { json: true })).toBe('[]\n');
			expect(await printed(none)).toBe('a  b\n');
		}
	});
});
