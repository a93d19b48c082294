import { addProject } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contacts, expectOneLine, expectWrongUsage } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

const run = (...args: string[]) => contacts(database.url, ['project', ...args]);
const stored = (code: string) => database.sql<{ disabled: boolean }[]>`
	select disabled_at is not null as disabled from projects where code = ${code}`;

describe('project create', () => {
	test.each(['a', '0', 'with-dash_and_9', 'x'.repeat(63)])(
		'creates %s enabled, and prints the next step',
		async (code) => {
			const outcome = await run('create', code);
			expect(outcome).toMatchObject({ code: 0, stderr: '' });
			expect(outcome.stdout).toContain(`contacts key create ${code}`);
			expect(await stored(code)).toEqual([{ disabled: false }]);
		},
	);

	test('--json prints the record', async () => {
		const outcome = await run('create', 'json', '--json');
		expect([outcome.code, JSON.parse(outcome.stdout)]).toEqual([0, { code: 'json' }]);
	});

	test('an existing code fails, and does not change the project', async () => {
		await run('create', 'taken');
		await run('disable', 'taken');
		expectOneLine(await run('create', 'taken'), 1, 'There is a project "taken" already');
		expect(await stored('taken')).toEqual([{ disabled: true }]);
	});

	test.each(['A', '-a', 'ä', 'a.b', 'x'.repeat(64), ''])(
		'an invalid code is wrong usage and creates nothing: "%s"',
		async (code) => {
			const before = await database.sql`select code from projects`;
			await expectWrongUsage(database.url, ['project', 'create', '--', code], 'A project code begins with');
			expect(await database.sql`select code from projects`).toEqual(before);
		},
	);
});

describe('project disable and enable', () => {
	test('work in turn, and can be repeated', async () => {
		await run('create', 'switched');
		for (const [word, disabled] of [
			['disable', true],
			['disable', true],
			['enable', false],
			['enable', false],
		] as const) {
			expect(await run(word, 'switched')).toEqual({ code: 0, stdout: `Project switched is ${word}d.\n`, stderr: '' });
			expect(await stored('switched')).toEqual([{ disabled }]);
		}
	});

	test('--json prints the state', async () => {
		await run('create', 'state');
		const outcomes = [await run('disable', 'state', '--json'), await run('enable', 'state', '--json')];
		expect(outcomes.map(({ stdout }) => JSON.parse(stdout))).toEqual([
			{ code: 'state', state: 'disabled' },
			{ code: 'state', state: 'enabled' },
		]);
	});

	test.each(['disable', 'enable'])('%s fails for a project that does not exist', async (word) => {
		expectOneLine(await run(word, 'missing'), 1, 'There is no project "missing"');
	});
});

test('create --sandbox makes a project that stays a sandbox', async () => {
	expect(await run('create', 'to-try', '--sandbox')).toEqual({
		code: 0,
		stdout: 'Created sandbox project to-try. Give it a key: contacts key create to-try\n',
		stderr: '',
	});
	const json = await run('create', 'to-try-2', '--sandbox', '--json');
	expect(JSON.parse(json.stdout)).toEqual({ code: 'to-try-2', sandbox: true });
	const rows = await database.sql`select code, sandbox from projects where code like 'to-try%' order by code`;
	expect([...rows]).toEqual([
		{ code: 'to-try', sandbox: true },
		{ code: 'to-try-2', sandbox: true },
	]);
});

describe('project list', () => {
	test('shows each project with its state and the number of its live keys, in the order of codes', async () => {
		const own = await ownDatabase();
		await addProject(own.sql, 'second', 'second-key');
		await addProject(own.sql, 'second', 'expired-key', { expiresAt: new Date(Date.now() - 1000) });
		await addProject(own.sql, 'first', 'first-key');
		await own.sql`update projects set disabled_at = now() where code = 'first'`;

		const records = JSON.parse((await contacts(own.url, ['project', 'list', '--json'])).stdout);
		const created_at = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
		expect(records).toEqual([
			{ code: 'first', state: 'disabled', sandbox: false, live_keys: 1, created_at },
			{ code: 'second', state: 'enabled', sandbox: false, live_keys: 1, created_at },
		]);

		const table = await contacts(own.url, ['project', 'list']);
		expect(table.stdout.split('\n').map((line) => line.split(/ {2,}/).slice(0, 3))).toEqual([
			['code', 'state', 'live_keys'],
			['first', 'disabled', '1'],
			['second', 'enabled', '1'],
			[''],
		]);
	});

	test('prints an empty JSON list, or a table with only its header, when there is no project', async () => {
		const own = await ownDatabase();
		expect(await contacts(own.url, ['project', 'list', '--json'])).toEqual({ code: 0, stdout: '[]\n', stderr: '' });
		expect((await contacts(own.url, ['project', 'list'])).stdout).toMatch(/^code +state [^\n]+\n$/);
	});
});
