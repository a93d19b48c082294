import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { addProject } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contacts, fileWith, replyTo } from './testing/command.js';

/** Clears the screen, rings, moves back, begins a C1 sequence, reverses text, and begins a line that looks like ours. */
const hostile = '\u001b[2J\u0007\r\u007f\u009b31m\u202e\u2066\u2028\nerror: none';
const shown = '\\u001b[2J\\u0007\\u000d\\u007f\\u009b31m\\u202e\\u2066\\u2028\\u000aerror: none';
const unsafe = /(?!\n)[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u;

test.beforeAll(async () => {
	await addProject(database.sql, 'alpha', 'alpha-key');
	await database.sql`update audit_log set actor = ${hostile}, details = ${JSON.stringify({ note: hostile })}::text::json`;
	const configuration = { portal: hostile, webhook_user: 1, trouble_options: [] };
	await database.sql`update crm_sync_state set configuration = ${JSON.stringify(configuration)}::text::jsonb`;
});

describe('a control character is shown as an escape, never executed', () => {
	test.each<[string, () => string[] | Promise<string[]>, 'stdout' | 'stderr', string]>([
		[
			'from a column of a CSV file',
			// The line of column names is one line.
			async () => ['import', '--yes', await fileWith(`bitrix_id,"${hostile.replace('\n', '')}"\n1,a\n`)],
			'stderr',
			shown.replace('\\u000a', ''),
		],
		[
			'from NDJSON, where the message names only the line and the ID',
			async () => ['import', '--yes', await fileWith(JSON.stringify({ bitrix_id: 1, [hostile]: hostile }), 'x.ndjson')],
			'stderr',
			'line 1, bitrix_id 1: a field that is not known\n',
		],
		['from the audit log', () => ['audit'], 'stdout', shown],
		['from the audit log as JSON', () => ['audit', '--json'], 'stdout', '\\u001b[2J\\u0007'],
		['from the CRM', () => ['sync', 'status'], 'stdout', '\\u001b[2J\\u0007'],
		['from the CRM as JSON', () => ['sync', 'status', '--json'], 'stdout', '\\u001b[2J\\u0007'],
		['from the name of a file', () => ['import', `${hostile}.csv`], 'stderr', shown],
		['from an argument', () => ['project', 'disable', hostile], 'stderr', shown],
		['from the name of a command', () => [hostile], 'stderr', '\\u001b[2J\\u0007'],
		['from the name of an option', () => ['project', `--${hostile}`], 'stderr', '\\u001b[2J\\u0007'],
	])('%s', async (_, args, stream, text) => {
		const outcome = await contacts(database.url, await args());
		expect(outcome.stdout + outcome.stderr).not.toMatch(unsafe);
		expect(outcome[stream]).toContain(text);
	});

	test('and JSON keeps its meaning', async () => {
		const log = JSON.parse((await contacts(database.url, ['audit', '--json'])).stdout);
		expect(log).toContainEqual(expect.objectContaining({ actor: hostile, details: { note: hostile } }));
		const { state } = JSON.parse((await contacts(database.url, ['sync', 'status', '--json'])).stdout);
		expect(state.configuration.portal).toBe(hostile);
	});

	test('from a confirmation question', async () => {
		const { output } = await replyTo(database.url, ['project', 'disable', 'old\u009b31m\u202e'], '');
		expect(output).toContain('Every key of old\\u009b31m\\u202e will be refused');
		expect(output).not.toMatch(/[\u0080-\u009f\u202e]/);
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
