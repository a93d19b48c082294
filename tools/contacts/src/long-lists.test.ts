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
	await database.sql`
		insert into audit_log (actor, role, action, project, details)
		select 'alice', 'contacts_operator', 'contacts imported', null, '{}' from generate_series(1, ${count}::int)`;
	// Nobody follows these contacts by their changes.
	await database.sql`alter table company_contacts disable trigger user`;
	await database.sql`insert into company_contacts (bitrix_id) select n from generate_series(1, ${count}::int) n`;
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

describe('a list of 150,000 rows', () => {
	test.each([
		[['subscription', 'list'], /^chat_id +state +started_at +ended_at$/, /^150000 +active +2026-01-01T00:25:00Z +-$/],
		[['audit', '--limit', '200000'], /^at +actor +role +action /, / alice +contacts_operator +contacts imported /],
		[['contact', 'list', '--limit', '200000'], /^id +bitrix_id +phone /, /^\d+ +1 /],
	] as const)('%j is printed whole as a table', async (args, head, first) => {
		const { code, stdout, stderr } = await contacts(database.url, [...args]);
		expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
		const lines = stdout.trimEnd().split('\n');
		expect(lines).toHaveLength(count + 1);
		expect(lines[0]).toMatch(head);
		expect(lines[1]).toMatch(first);
	});

	test('is printed whole as JSON, with the format of a short one', async () => {
		const { code, stdout, stderr } = await contacts(database.url, ['subscription', 'list', '--json']);
		expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
		const records = JSON.parse(stdout) as { chat_id: number }[];
		expect(new Set(records.map(({ chat_id }) => chat_id)).size).toBe(count);
		expect(stdout === `${JSON.stringify(records, null, 2)}\n`).toBe(true);
	});

	test.each([[[]], [['--json']]])('waits for a slow reader, page by page: %j', async (options) => {
		const { stdout, pieces, queued } = slowOutput();
		const args = ['subscription', 'list', '--limit', '20000', ...options];
		const code = await runContacts(args, environmentOf(database.url), { stdin, stdout, stderr: slowOutput().stdout });
		expect(code).toBe(0);
		expect(queued()).toBe(0);
		expect(pieces.join('').length).toBeGreaterThan(800_000);
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

	test('of a table get wider where a later one needs it, and stay wide', async () => {
		const pages = [[{ a: 1, b: 'x' }], [{ a: 12345, b: 'y' }], [{ a: 2, b: null }]];
		expect(await printed(pages)).toBe('a  b\n1  x\n12345  y\n2      -\n');
	});

	test('form one array as JSON, which is empty when there are none', async () => {
		const records = [{ a: 1, b: ['x', '\u009b'] }, { a: {}, b: [] }, { a: null }];
		const pages = [records.slice(0, 2), [], records.slice(2)];
		const text = JSON.stringify(records, null, 2).replace('\u009b', '\\u009b');
		expect(await printed(pages, { json: true })).toBe(`${text}\n`);
		for (const none of [[], [[]]]) {
			expect(await printed(none, { json: true })).toBe('[]\n');
			expect(await printed(none)).toBe('a  b\n');
		}
	});
});
