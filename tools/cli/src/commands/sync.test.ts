import { urlAs } from '@contacts/common/database/roles.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { rolePassword } from '@contacts/testing/database.js';
import { startProcess } from '@contacts/testing/process.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, vi } from 'vitest';
import { contacts, environmentOf, expectOneLine, main } from '../testing/command.js';

let standIn: StandIn;
let url: string;

test.beforeAll(async () => {
	url = urlAs(database.url, 'operator', rolePassword);
	standIn = await startStandIn({ plan: 'enterprise' });
	for (let n = 1; n <= 3; n++) standIn.add({ lastName: `Contact ${n}` });
});
afterAll(() => standIn?.close());

const settings = () => ({
	BITRIX24_WEBHOOK_URL: standIn.webhookUrl,
	BITRIX24_PLAN: 'enterprise',
	CONTACTS_ACTOR: 'alice',
});
const run = (args: string[], more: Record<string, string> = {}) =>
	contacts(url, ['sync', ...args], { environment: { ...settings(), ...more } });

test('sync --contact fails for a contact that can’t be read, and says why', async () => {
	expect(await run(['--once'])).toMatchObject({ code: 0 });
	const [id = 0] = standIn.contacts.keys();
	standIn.hide((contact) => contact.id === id);
	expectOneLine(await run(['--contact', String(id)]), 1, `contact ${id} could not be read (ACCESS_DENIED)`);
	standIn.showAll();
	expect(await run(['--contact', String(id)])).toMatchObject({ code: 0 });
});

test('sync --remap and --confirm-mass-delete are recorded in the audit log, without the webhook’s secret', async () => {
	const country = { BITRIX24_DEFAULT_COUNTRY: 'RU' };
	expect(await run(['--once'], country)).toMatchObject({ code: 1 });
	expect(await run(['--remap', '--confirm-mass-delete'], country)).toMatchObject({ code: 0 });
	const { stdout } = await contacts(url, ['audit', '--json']);
	expect(JSON.parse(stdout)).toMatchObject([
		{ actor: 'alice', action: 'new configuration confirmed', details: { portal: '127.0.0.1', default_country: 'RU' } },
		{ actor: 'alice', action: 'mass deletion confirmed' },
	]);
	expect(stdout).not.toContain(new URL(standIn.webhookUrl).pathname.split('/')[3]);
	expect(await run(['--remap'])).toMatchObject({ code: 0 });
});

test('sync without --once makes a pass every BITRIX24_INTERVAL_SECONDS', async () => {
	const passes = async () => (await database.sql`select from crm_sync_runs where kind <> 'contact'`).length;
	const before = await passes();
	const command = startProcess(process.execPath, [main, 'sync'], {
		env: environmentOf(url, { ...settings(), BITRIX24_INTERVAL_SECONDS: '5' }),
	});
	await vi.waitUntil(async () => (await passes()) >= before + 2, { timeout: 60_000 });
	command.kill('SIGTERM');
	expect(await command.exit).toBe(0);
});

describe('wrong usage', () => {
	test.each([
		['a query', 'https://portal.example/rest/1/secret?debug=1'],
		['a fragment', 'https://portal.example/rest/1/secret#1'],
		['a user', 'https://user:password@portal.example/rest/1/secret/'],
	])('a webhook with %s', async (_, webhook) => {
		const outcome = await run(['--once'], { BITRIX24_WEBHOOK_URL: webhook });
		expectOneLine(outcome, 2, 'BITRIX24_WEBHOOK_URL is wrong');
		expect(outcome.stderr).not.toContain('secret');
	});

	test('--json for a command that prints no result', async () => {
		expectOneLine(await run(['--json']), 2, '--json prints the result of a pass: say --once');
	});

	test('an interval that is no number', async () => {
		expectOneLine(await run(['--once'], { BITRIX24_INTERVAL_SECONDS: '5m' }), 2, 'BITRIX24_INTERVAL_SECONDS is wrong');
	});
});
