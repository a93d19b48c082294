import { addProject } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { contacts, expectOneLine } from '../testing/command.js';
import { ownDatabase } from '../testing/own-database.js';

const run = (...args: string[]) => contacts(database.url, ['project', ...args]);
const stored = async (code: string) => [
	...(await database.sql`select disabled_at is not null as disabled, sandbox from projects where code = ${code}`),
];

test.each([
	['a', false],
	['0', false],
	['with-dash_and_9', true],
	['x'.repeat(63), true],
])('create makes the project %s (sandbox: %s), and prints the next step', async (code, sandbox) => {
	const outcome = await run('create', code, ...(sandbox ? ['--sandbox'] : []));
	expect(outcome).toMatchObject({
		code: 0,
		stderr: '',
		stdout: expect.stringContaining(`contacts key create ${code}`),
	});
	expect(await stored(code)).toEqual([{ disabled: false, sandbox }]);
});

test('disable and enable work in turn, and can be repeated; an existing code can’t be created again', async () => {
	await run('create', 'switched');
	for (const word of ['enable', 'enable', 'disable', 'disable']) {
		expect(await run(word, 'switched')).toEqual({ code: 0, stdout: `Project switched is ${word}d.\n`, stderr: '' });
		expect(await stored('switched')).toMatchObject([{ disabled: word === 'disable' }]);
		expectOneLine(await run(word, 'missing'), 1, 'There is no project "missing"');
	}
	expectOneLine(await run('create', 'switched'), 1, 'There is a project "switched" already');
	expect(await stored('switched')).toEqual([{ disabled: true, sandbox: false }]);
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
