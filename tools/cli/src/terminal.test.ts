import { addProject } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contacts, replyTo, spawnContacts } from './testing/command.js';
import { startOnTerminal } from './testing/terminal.js';

const esc = '\u001b';
const plain = (text: string) => text.replaceAll(new RegExp(`${esc}\\[[0-9;?]*[a-zA-Z]`, 'g'), '').replaceAll('\r', '');

const note = `an escape \u001b[31m sequence${' in a long note'.repeat(20)}`;

test.beforeAll(async () => {
	for (const code of ['alpha', 'beta', 'gamma']) await addProject(database.sql, code, `${code}-key`);
	await database.sql`update api_keys set name = 'billing job' where id = 1`;
	await database.sql`update audit_log set actor = 'alice@host', details = ${JSON.stringify({ note })}::text::json where id > 1`;
});

describe('a table', () => {
	test('on a terminal fits its width, and shows every time, ID and text whole', async ({ skip }) => {
		for (const columns of [80, 120]) {
			const terminal = startOnTerminal(skip, database.url, ['audit'], { columns });
			expect(await terminal.ended).toBe(0);
			const output = plain(terminal.output());
			const lines = output.trimEnd().split('\n');
			for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns);
			expect(lines[0]).toMatch(/^at +actor +action +project +key_id/);
			// Seven rows, each of which begins with its time.
			expect(lines.filter((line) => /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d /.test(line))).toHaveLength(7);
			expect(output).not.toContain('…');
			const words = output.split(/\s+/);
			expect(words.filter((word) => word === 'sequence')).toHaveLength(6);
			expect(words.filter((word) => word === 'long')).toHaveLength(120);
		}
	});

	test('elsewhere, and as JSON, has its full text and no escape sequence', async () => {
		const { stdout } = await contacts(database.url, ['audit'], { environment: { COLUMNS: '40' } });
		expect(stdout).toContain(note.replace(esc, '\\u001b'));
		expect(stdout).not.toMatch(/[^\P{Cc}\n]/u);
		const records = JSON.parse((await contacts(database.url, ['audit', '--json'])).stdout);
		expect(records[0]).toMatchObject({ actor: 'alice@host', details: { note } });
	});
});

describe('colour', () => {
	const list = ['project', 'list'];

	test('appears on a terminal and with FORCE_COLOR, but not elsewhere or with NO_COLOR', async ({ skip }) => {
		const green = `${esc}[32menabled`;
		const terminal = startOnTerminal(skip, database.url, list);
		expect(await terminal.ended).toBe(0);
		expect(terminal.output()).toContain(green);
		const without = startOnTerminal(skip, database.url, list, { environment: { NO_COLOR: '1' } });
		expect(await without.ended).toBe(0);
		expect(without.output()).not.toContain(esc);
		expect((await spawnContacts(database.url, list)).stdout).not.toContain(esc);
		expect((await spawnContacts(database.url, list, { environment: { FORCE_COLOR: '1' } })).stdout).toContain(green);
		const { stdout } = await spawnContacts(database.url, [...list, '--json'], { environment: { FORCE_COLOR: '1' } });
		expect(stdout).not.toContain(esc);
	});

	test('also marks an error', async () => {
		const outcome = await spawnContacts(database.url, ['key', 'revoke', '99'], { environment: { FORCE_COLOR: '1' } });
		expect(outcome.stderr).toMatch(new RegExp(`^${esc}\\[31merror:${esc}\\[39m There is no key 99`));
	});
});

describe('the command asks the person at the terminal before it destroys anything', () => {
	const states = async () => {
		const [row] = await database.sql<[{ revoked: number; disabled: number }]>`
			select (select count(*) from api_keys where revoked_at is not null)::int as revoked,
			       (select count(*) from projects where disabled_at is not null)::int as disabled`;
		return row;
	};

	const cases: [string, RegExp, string][] = [
		['key revoke 1', /Key 1 of alpha \(billing job\) will be refused for good\. Go on\? \[y\/N\]/, 'Key 1 is revoked.'],
		['project disable alpha', /Every key of alpha will be refused .+ Go on\?/, 'Project alpha is disabled.'],
	];
	test.for(cases)('%s', async ([command, question, done], { skip }) => {
		const args = command.split(' ');
		for (const reply of ['', 'yeah']) {
			const refused = await replyTo(database.url, args, reply);
			expect(refused).toMatchObject({ code: 1, output: expect.stringMatching(question) });
			expect(refused.output).toContain('Nothing was done.');
		}
		expect(await states()).toEqual({ revoked: 0, disabled: 0 });
		// Once on a real terminal.
		const terminal = startOnTerminal(skip, database.url, args);
		await expect.poll(() => terminal.output()).toMatch(question);
		terminal.type('y\r');
		expect(await terminal.ended).toBe(0);
		expect(terminal.output()).toContain(done);
		expect(await states()).not.toEqual({ revoked: 0, disabled: 0 });
		await database.sql`update api_keys set revoked_at = null`;
		await database.sql`update projects set disabled_at = null`;
	});

	test('--yes skips the question, and a script continues without it', async ({ skip }) => {
		const terminal = startOnTerminal(skip, database.url, ['key', 'revoke', '2', '--yes']);
		expect(await terminal.ended).toBe(0);
		expect(terminal.output()).not.toContain('Go on?');
		expect(await contacts(database.url, ['key', 'revoke', '3'])).toMatchObject({ code: 0, stderr: '' });
		expect(await states()).toEqual({ revoked: 2, disabled: 0 });
	});
});
