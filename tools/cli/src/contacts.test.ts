import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import type { Command } from 'commander';
import { describe, expect } from 'vitest';
import { createProgram } from './program.js';
import { contacts, spawnContacts } from './testing/command.js';

/** The commands that do something, by their words. */
function leaves(command: Command, words: string[] = []): [string, Command][] {
	const below = command.commands.flatMap((sub) => leaves(sub, [...words, sub.name()]));
	return below.length > 0 && command.name() !== 'sync' ? below : [[words.join(' '), command], ...below];
}

test.each(leaves(createProgram({})))(
	'"%s --help" fits 80 columns, and its examples are valid as they stand',
	async (words) => {
		const { code, stdout, stderr } = await contacts(undefined, [...words.split(' '), '--help']);
		expect([code, stderr]).toEqual([0, '']);
		const [help = '', examples = ''] = stdout.split('\nExamples:\n');
		for (const line of help.split('\n')) expect(line.length, line).toBeLessThanOrEqual(80);
		const parts = examples.split(/\n|\||&&|[<>]\(?/).map((part) => part.trim().replace(/\)$/, ''));
		const calls = parts.flatMap((part) => /^contacts (.+)$/.exec(part)?.[1] ?? []);
		expect(calls.some((call) => `${call} `.startsWith(`${words} `))).toBe(true);
		for (const call of calls) {
			let done = 0;
			const parser = createProgram({}).configureOutput({ writeErr: () => undefined });
			for (const [, leaf] of leaves(parser)) leaf.action(() => void done++);
			const given = [...call.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => String(quoted ?? plain));
			await parser.parseAsync(given, { from: 'user' });
			expect(done, call).toBe(1);
		}
	},
);

test('--help loads no module that only the work of a command needs', async () => {
	const folder = await temporaryFolder();
	await spawnContacts(undefined, ['--help'], { environment: { NODE_V8_COVERAGE: folder } });
	const [report = ''] = await readdir(folder);
	const { result } = JSON.parse(await readFile(join(folder, report), 'utf8')) as { result: { url: string }[] };
	const packages = result.flatMap(({ url }) => /.*\/node_modules\/((@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []);
	expect(new Set(packages)).toEqual(new Set(['commander']));
});

describe('wrong usage, exit 2', () => {
	test.each([
		'project nonsense',
		'project list --nonsense',
		'project list extra',
		'key create code --service nonsense',
	])('%s', async (command) => {
		const outcome = await contacts(database.url, command.split(' '));
		expect(outcome).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^error: /) });
		expect(outcome.stderr).not.toMatch(/^\s+at /m);
	});

	test.each(['', 'project'])('"%s" without a subcommand shows the help', async (command) => {
		const outcome = await contacts(database.url, command.split(' ').filter(Boolean));
		expect(outcome).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^Usage: contacts/) });
	});
});

test('as a separate process the command exits with 0, 1 or 2 and prints the same', async () => {
	const calls = ['project list', 'project disable missing', 'project nonsense'].map((call) => call.split(' '));
	const outcomes = await Promise.all(calls.map((call) => spawnContacts(database.url, call)));
	expect(outcomes.map(({ code }) => code)).toEqual([0, 1, 2]);
	expect(outcomes).toEqual(await Promise.all(calls.map((call) => contacts(database.url, call))));
});
