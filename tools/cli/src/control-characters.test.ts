import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addProject } from '@contacts/testing/app.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, vi } from 'vitest';
import { contacts, type Outcome } from './testing/command.js';
import { startOnTerminal } from './testing/terminal.js';

/** Clears the screen, rings, moves back, begins a C1 sequence, reverses text, and begins a line that looks like ours. */
const hostile = '\u001b[2J\u0007\r\u007f\u009b31m\u202e\u2066\u2028\nerror: none';
const shown = '\\u001b[2J\\u0007\\u000d\\u007f\\u009b31m\\u202e\\u2066\\u2028\\u000aerror: none';
const unsafe = /(?!\n)[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u;

test.beforeAll(async () => {
	await addProject(database.sql, 'alpha', 'alpha-key');
	await database.sql`update audit_log set actor = ${hostile}, details = ${JSON.stringify({ note: hostile })}::text::json`;
});

async function file(name: string, content: string | Buffer): Promise<string> {
	const path = join(await temporaryFolder(), name);
	await writeFile(path, content);
	return path;
}

function expectShown({ stdout, stderr }: Outcome, stream: 'stdout' | 'stderr', text = shown): void {
	expect(stdout + stderr).not.toMatch(unsafe);
	expect({ stdout, stderr }[stream]).toContain(text);
	if (stream === 'stderr') expect(stderr).toMatch(/^error: [^\n]+\n$/);
}

describe('a control character is shown as an escape, never executed:', () => {
	test('from a column of a CSV file', async () => {
		// The line of column names is one line.
		const path = await file('list.csv', `bitrix_id,"${hostile.replace('\n', '')}"\n1,a\n`);
		expectShown(await contacts(database.url, ['import', path]), 'stderr', shown.replace('\\u000a', ''));
	});

	test('from a key or a value of NDJSON, where the message names only the line and the ID', async () => {
		const path = await file('list.ndjson', JSON.stringify({ bitrix_id: 1, [hostile]: hostile }));
		const outcome = await contacts(database.url, ['import', path]);
		expect(outcome.stderr).toBe('line 1, bitrix_id 1: a field that is not known\n');
		expect(outcome.stdout).not.toMatch(unsafe);
	});

	test('from the audit log, as a table and as JSON, which keeps its meaning', async () => {
		expectShown(await contacts(database.url, ['audit']), 'stdout');
		const json = await contacts(database.url, ['audit', '--json']);
		expect(json.stdout).not.toMatch(unsafe);
		expect(JSON.parse(json.stdout)).toContainEqual(
			expect.objectContaining({ actor: hostile, details: { note: hostile } }),
		);
	});

	test('from portal data that the synchroniser stored, as text and as JSON', async () => {
		await database.sql`
			update crm_sync_state set configuration = ${JSON.stringify({ portal: hostile, webhook_user: 1, trouble_options: [] })}::text::jsonb`;
		const text = await contacts(database.url, ['sync', 'status']);
		expect(text.stdout).not.toMatch(unsafe);
		expect(text.stdout).toContain('\\u001b[2J\\u0007');
		const json = await contacts(database.url, ['sync', 'status', '--json']);
		expect(json.stdout).not.toMatch(unsafe);
		expect(JSON.parse(json.stdout).state.configuration.portal).toBe(hostile);
		await database.sql`update crm_sync_state set configuration = null`;
	});

	test('from file names and arguments on the command line', async () => {
		expectShown(await contacts(database.url, ['import', `${hostile}.csv`]), 'stderr');
		expectShown(await contacts(database.url, ['project', 'disable', hostile]), 'stderr');
		for (const args of [[hostile], ['project', `--${hostile}`]]) {
			const outcome = await contacts(database.url, args);
			expect(outcome.code).toBe(2);
			expect(outcome.stderr).toContain('\\u001b[2J\\u0007');
			expect(outcome.stdout + outcome.stderr).not.toMatch(unsafe);
		}
	});

	test('from a confirmation question', async ({ skip }) => {
		const terminal = startOnTerminal(skip, database.url, ['project', 'disable', 'old\u009b31m\u202e']);
		await vi.waitUntil(() => /Go on\?/.test(terminal.output()), { timeout: 20_000 });
		terminal.type('\r');
		expect(await terminal.ended).toBe(1);
		expect(terminal.output()).toContain('Every key of old\\u009b31m\\u202e will be refused');
		expect(terminal.output()).not.toMatch(/[\u0080-\u009f\u202e]/);
	});
});

test('only one module writes to the terminal', async () => {
	const folder = fileURLToPath(new URL('.', import.meta.url));
	const names = (await readdir(folder, { recursive: true })).filter((name) => /(?<!\.test)\.ts$/.test(name));
	const found: string[] = [];
	for (const name of names) {
		const source = await readFile(join(folder, name), 'utf8');
		if (/std(out|err)\.write\(|console\./.test(source) && !name.startsWith('testing/')) found.push(name);
	}
	expect(found).toEqual(['output.ts']);
});
