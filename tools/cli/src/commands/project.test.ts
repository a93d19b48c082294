import { addProject } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { contacts, expectOneLine, expectWrongUsage } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

const run = (...args: string[]) => contacts(database.url, ['project', ...args]);
const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout);
const stored = async (code: string) => [
	...(await database.sql`select disabled_at is not null as disabled, sandbox from projects where code = ${code}`),
];

test.each(['a', '0', 'with-dash_and_9', 'x'.repeat(63)])('create makes %s, and prints the next step', async (code) => {
	const outcome = await run('create', code);
	expect(outcome).toMatchObject({ code: 0, stderr: '' });
	expect(outcome.stdout).toContain(`contacts key create ${code}`);
	expect(await stored(code)).toEqual([{ disabled: false, sandbox: false }]);
});

test('create with an existing code fails, and does not change the project', async () => {
	expect(await json('create', 'taken')).toEqual({ code: 'taken' });
	await run('disable', 'taken');
	expectOneLine(await run('create', 'taken'), 1, 'There is a project "taken" already');
	expect(await stored('taken')).toEqual([{ disabled: true, sandbox: false }]);
});

test.each(['A', '-a', 'ä', 'a.b', 'x'.repeat(64), ''])('an invalid code is wrong usage: "%s"', async (code) => {
	await expectWrongUsage(database.url, ['project', 'create', '--', code], 'A project code begins with');
	expect(await stored(code)).toEqual([]);
});

test('create --sandbox makes a sandbox project', async () => {
	expect(await json('create', 'to-try', '--sandbox')).toEqual({ code: 'to-try', sandbox: true });
	expect(await stored('to-try')).toEqual([{ disabled: false, sandbox: true }]);
});

test('disable and enable work in turn, and can be repeated', async () => {
	await run('create', 'switched');
	for (const word of ['disable', 'disable', 'enable', 'enable']) {
		expect(await run(word, 'switched')).toEqual({ code: 0, stdout: `Project switched is ${word}d.\n`, stderr: '' });
		expect(await json(word, 'switched')).toEqual({ code: 'switched', state: `${word}d` });
		expect(await stored('switched')).toMatchObject([{ disabled: word === 'disable' }]);
		expectOneLine(await run(word, 'missing'), 1, 'There is no project "missing"');
	}
});

test('list shows each project with its state and the number of its live keys, in the order of codes', async () => {
	const own = await ownDatabase();
	const list = async (...args: string[]) => (await contacts(own.url, ['project', 'list', ...args])).stdout;
	expect([await list('--json'), await list()]).toEqual(['[]\n', expect.stringMatching(/^code +state [^\n]+\n$/)]);
	await addProject(own.sql, 'second', 'second-key');
	await addProject(own.sql, 'second', 'expired-key', { expiresAt: new Date(Date.now() - 1000) });
	await addProject(own.sql, 'first', 'first-key');
	await own.sql`update projects set disabled_at = now() where code = 'first'`;
	const more = { sandbox: false, live_keys: 1, created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) };
	expect(JSON.parse(await list('--json'))).toEqual([
		{ code: 'first', state: 'disabled', ...more },
		{ code: 'second', state: 'enabled', ...more },
	]);
	expect((await list()).split('\n').map((line) => line.split(/ {2,}/).slice(0, 3))).toEqual([
		['code', 'state', 'live_keys'],
		['first', 'disabled', '1'],
		['second', 'enabled', '1'],
		[''],
	]);
});
