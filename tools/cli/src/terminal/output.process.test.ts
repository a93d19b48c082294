import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { PassThrough, Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { addProject } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { contacts, environmentOf, main } from '../testing/command.js';
import { createOutput } from './output.js';
import { describeShare } from './progress.js';

/** More rows than a function of JavaScript takes arguments, and more than a pipe holds. */
const count = 150_000;

test.beforeAll(async () => {
	await addProject(database.sql, 'acme', 'acme-key');
	await database.sql`
		insert into direct_subscriptions (chat_id, started_at)
		select n, '2026-01-01T00:00:00Z'::timestamptz + make_interval(secs => n / 100) from generate_series(1, ${count}::int) n`;
});

const start = (args: string[], stdout: number | 'pipe' = 'pipe') =>
	spawn(process.execPath, [main, ...args], { env: environmentOf(database.url), stdio: ['ignore', stdout, 'pipe'] });

async function outcomeOf(child: ChildProcess): Promise<{ code: number; stderr: string }> {
	const [stderr, [code]] = await Promise.all([child.stderr ? text(child.stderr) : '', once(child, 'close')]);
	return { code, stderr };
}

async function outcomeWithOutput(args: string[]) {
	const child = start(args);
	const [stdout, outcome] = await Promise.all([child.stdout ? text(child.stdout) : '', outcomeOf(child)]);
	return { ...outcome, stdout };
}

test('as a separate process the command exits with 0, 1 or 2 and prints the same', async () => {
	const calls = ['project list', 'project disable missing', 'project nonsense'].map((call) => call.split(' '));
	const outcomes = await Promise.all(calls.map(outcomeWithOutput));
	expect(outcomes.map(({ code }) => code)).toEqual([0, 1, 2]);
	expect(outcomes).toEqual(await Promise.all(calls.map((call) => contacts(database.url, call))));
});

describe('a reader that closes the output ends the command quietly, with 141', () => {
	test('in the middle of a long list', async () => {
		const child = start(['subscription', 'list', '--json']);
		child.stdout?.once('data', () => child.stdout?.destroy());
		expect(await outcomeOf(child)).toEqual({ code: 141, stderr: '' });
	});

	test('and the command finishes its work: a key that nobody could read is stored, and can be revoked', async () => {
		const child = start(['key', 'create', 'acme', '--no-wait', '--json', '--name', 'unread']);
		child.stdout?.destroy();
		expect(await outcomeOf(child)).toEqual({ code: 141, stderr: '' });
		expect(await database.sql`select from api_keys where name = 'unread'`).toHaveLength(1);
	});
});

test('a reader that closes standard error ends nothing: the exit code tells the outcome', async () => {
	const child = start(['project', 'disable', 'missing']);
	child.stderr?.destroy();
	const [code] = await once(child, 'close');
	expect(code).toBe(1);
});

test('a full disk makes the command fail with one line', async () => {
	const full = await open('/dev/full', 'w');
	onTestFinished(() => full.close());
	for (const args of [
		['subscription', 'list', '--json'],
		['project', 'list'],
	]) {
		expect(await outcomeOf(start(args, full.fd))).toEqual({
			code: 1,
			stderr: "error: Standard output can't be written (ENOSPC).\n",
		});
	}
});

describe('the progress of long work', () => {
	/** Reports progress every 100 ms for 25 seconds, and then a line. @returns what standard error got */
	function report(isTTY: boolean): string {
		let written = '';
		const write = (chunk: Buffer, _: string, done: () => void) => {
			written += chunk;
			done();
		};
		const [stdin, stdout, stderr] = [Readable.from([]), new PassThrough(), new Writable({ write })];
		let time = 0;
		const output = createOutput({ stdin, stdout, stderr: Object.assign(stderr, { isTTY, columns: 8 }) }, () => time);
		for (; time < 25_000; time += 100) output.progress(`${time} ms of 25,000`);
		output.note('done');
		return written;
	}

	test('is one line on a terminal, replaced at most four times a second, and cleared before other output', () => {
		const states = report(true).split('\r\u001b[K');
		expect(states.slice(0, 4)).toEqual(['', '0 ms of', '300 ms ', '600 ms ']);
		expect(states.at(-1)).toBe('done\n');
		expect(states).toHaveLength(2 + Math.ceil(25_000 / 300));
	});

	test.each([
		[undefined, 60_000, ''],
		[0.004, 60_000, ', 0 %'],
		[0.25, 1000, ', 25 %'],
		[0.25, 20_000, ', 25 %, 60 s left'],
		[0.1, 60_000, ', 10 %, 9 min left'],
		[1, 60_000, ', 100 %'],
	])(
		'shows the share that was read, and the time left where it can be known: %s after %s ms',
		(share, elapsedMs, text) => {
			expect(describeShare(share, elapsedMs)).toBe(text);
		},
	);

	test('is a line every ten seconds elsewhere', () => {
		expect(report(false)).toBe('10000 ms of 25,000\n20000 ms of 25,000\ndone\n');
	});

	test.each([
		[['import', '-', '--format', 'ndjson'], '{"bitrix_id":1}\n{"bitrix_id":2}\n', '1 record: 1 good, 0 refused'],
		[
			['subscription', 'import', '-', '--format', 'ndjson'],
			'{"chat_id":1}\n',
			'Checking: 1 record: 1 good, 0 refused, 100 %',
		],
	])('is shown by %j', async (args, input, state) => {
		expect(await contacts(database.url, args, { input, isTTY: true })).toMatchObject({
			code: 0,
			stderr: `\r\u001b[K${state}\r\u001b[K`,
		});
	});
});

test('a list of 150,000 rows is printed whole, as JSON and as a table', async () => {
	const json = (await contacts(database.url, ['subscription', 'list', '--json'])).stdout;
	const records = JSON.parse(json) as { chat_id: number }[];
	expect(new Set(records.map(({ chat_id }) => chat_id)).size).toBe(count);
	expect(json).toBe(`[\n${records.map((record) => JSON.stringify(record)).join(',\n')}\n]\n`);

	const lines = (await contacts(database.url, ['subscription', 'list'])).stdout.trimEnd().split('\n');
	expect(lines).toHaveLength(count + 1);
	expect(lines[0]).toMatch(/^chat_id +state +started_at +ended_at$/);
	expect(lines[1]).toMatch(/^150000 +active +2026-01-01T00:25:00Z +-$/);
});
