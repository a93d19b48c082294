import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { addProject } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';
import { environmentOf, main } from './testing/command.js';

test.beforeAll(async () => {
	await addProject(database.sql, 'acme', 'acme-key');
	// More than a pipe holds.
	await database.sql`insert into direct_subscriptions (chat_id) select n from generate_series(1, 20000) n`;
});

const start = (args: string[], stdout: number | 'pipe' = 'pipe') =>
	spawn(process.execPath, [main, ...args], { env: environmentOf(database.url), stdio: ['ignore', stdout, 'pipe'] });

async function outcomeOf(child: ChildProcess): Promise<{ code: number; stderr: string }> {
	const [stderr, [code]] = await Promise.all([child.stderr ? text(child.stderr) : '', once(child, 'close')]);
	return { code, stderr };
}

describe('a reader that closes the output ends the command quietly, with 141', () => {
	test.each([
		['subscription', 'list'],
		['subscription', 'list', '--json'],
	])('a long list after its first lines: %s %s %s', async (...args) => {
		const child = start(args);
		child.stdout?.once('data', () => child.stdout?.destroy());
		expect(await outcomeOf(child)).toEqual({ code: 141, stderr: '' });
	});

	test.each([['project', 'list'], ['audit'], ['sync', 'status']])('any other command: %s', async (...args) => {
		const child = start(args);
		child.stdout?.destroy();
		expect(await outcomeOf(child)).toEqual({ code: 141, stderr: '' });
	});

	test('the command finishes its work: a key that nobody could read is stored, and can be revoked', async () => {
		const child = start(['key', 'create', 'acme', '--json', '--name', 'unread']);
		child.stdout?.destroy();
		expect(await outcomeOf(child)).toEqual({ code: 141, stderr: '' });
		const rows = await database.sql`select from api_keys where name = 'unread'`;
		expect(rows).toHaveLength(1);
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
