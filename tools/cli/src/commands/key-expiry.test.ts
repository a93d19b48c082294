import { service } from '@contacts/company-contacts/app.js';
import { startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { contacts, expectOneLine } from '../testing/command.js';
import { parseExpiry } from './key.js';

let app: TestApp;

test.beforeAll(async () => {
	await database.sql`insert into projects (code) values ('one')`;
	app = await startTestApp(service, database.url);
});
afterAll(() => app?.close());

const run = (args: string[]) => contacts(database.url, ['key', ...args]);
const create = async (...args: string[]) => JSON.parse((await run(['create', 'one', '--json', ...args])).stdout);
const statusOf = async (key: string) => {
	await app.keyRing.refresh();
	return (await app.fetch(`/api/company_contacts.list?project=one&api_key=${key}`)).status;
};

describe('--expires', () => {
	const day = 86_400_000;
	const expiryOf = async (id: number) => {
		const [row] = await database.sql<{ at: number; now: number }[]>`
			select (extract(epoch from expires_at) * 1000)::float8 as at, (extract(epoch from now()) * 1000)::float8 as now
			from api_keys where id = ${id}`;
		return row ?? { at: Number.NaN, now: 0 };
	};

	test('accepts a number of days from now', async () => {
		const { id, key } = await create('--expires', '30');
		const { at, now } = await expiryOf(id);
		expect(Math.abs(at - now - 30 * day)).toBeLessThan(60_000);
		expect(await statusOf(key)).toBe(200);
	});

	test('accepts a date, which means 00:00 UTC', async () => {
		const { id, expires_at } = await create('--expires', '2099-01-31');
		expect(expires_at).toBe('2099-01-31T00:00:00.000Z');
		expect((await expiryOf(id)).at).toBe(Date.UTC(2099, 0, 31));
	});

	test('the service refuses the key once it has expired', async () => {
		const { id, key } = await create('--expires', '1');
		await database.sql`update api_keys set expires_at = now() where id = ${id}`;
		expect(await statusOf(key)).toBe(401);
	});

	const now = new Date('2026-03-01T12:00:00Z');
	test.each([
		['1', '2026-03-02T12:00:00.000Z'],
		['90d', '2026-05-30T12:00:00.000Z'],
		['99999', '2299-12-14T12:00:00.000Z'],
		['2028-02-29', '2028-02-29T00:00:00.000Z'],
		['2026-03-01T13:00:00+00:30', '2026-03-01T12:30:00.000Z'],
	])('%s means %s', async (given, expected) => {
		expect((await parseExpiry(given, now)).toISOString()).toBe(expected);
	});

	test.each(['0', '1w', '-1', '1.5', '100000', 'tomorrow', '', ' 5', '2027-1-1', '2027-02-29', '2026-03-01'])(
		'an invalid or past time is wrong usage: %j',
		async (given) => {
			await expect(parseExpiry(given, now)).rejects.toThrow(/^--expires (takes|must be)/);
		},
	);

	test('an invalid time on the command line makes no key', async () => {
		const before = await database.sql`select count(*)::int from api_keys`;
		expectOneLine(await run(['create', 'one', '--expires', '-1']), 2, '--expires takes');
		expectOneLine(await run(['create', 'one', '--expires', 'tomorrow']), 2, '--expires takes');
		expect(await database.sql`select count(*)::int from api_keys`).toEqual(before);
	});
});
