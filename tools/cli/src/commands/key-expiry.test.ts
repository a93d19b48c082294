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

	test.each(['2020-01-01', '2020-01-01T00:00:00Z'])('a time in the past is wrong usage: %s', async (when) => {
		expectOneLine(await run(['create', 'one', '--expires', when]), 2, '--expires must be in the future');
	});

	const now = new Date('2026-03-01T12:00:00Z');
	test.each([
		['1', '2026-03-02T12:00:00.000Z'],
		['99999', '2299-12-14T12:00:00.000Z'],
		['90d', '2026-05-30T12:00:00.000Z'],
		['6m', '2026-09-01T12:00:00.000Z'],
		['1y', '2027-03-01T12:00:00.000Z'],
		['2026-03-02', '2026-03-02T00:00:00.000Z'],
		['2028-02-29', '2028-02-29T00:00:00.000Z'],
		['2026-03-01T13:00:00+00:30', '2026-03-01T12:30:00.000Z'],
	])('%s means %s', (given, expected) => {
		expect(parseExpiry(given, now).toISOString()).toBe(expected);
	});

	test.each([
		['2026-01-31T12:00:00Z', '1m', '2026-02-28T12:00:00.000Z'],
		['2028-02-29T12:00:00Z', '1y', '2029-02-28T12:00:00.000Z'],
		['2026-12-31T12:00:00Z', '2m', '2027-02-28T12:00:00.000Z'],
	])('from %s on, %s ends on the last day of a shorter month', (from, given, expected) => {
		expect(parseExpiry(given, new Date(from)).toISOString()).toBe(expected);
	});

	test.each([
		...[
			'0',
			'0d',
			'1w',
			'1Y',
			'1 y',
			'99999y',
			'-1',
			'1.5',
			'100000',
			'tomorrow',
			'',
			' 5',
			'2027-1-1',
			'2027-02-29',
			'2027-13-01',
			'31.01.2027',
		],
		...['2027-02-30T00:00:00Z', '2027-01-01T25:00:00Z', '2027-01-01T00:00:00', 'Infinity', '2026-03-01'],
	])('an invalid or past time is wrong usage: %j', (given) => {
		expect(() => parseExpiry(given, now)).toThrow(/^--expires (takes|must be)/);
	});

	test('an invalid time on the command line makes no key', async () => {
		const before = await database.sql`select count(*)::int from api_keys`;
		expectOneLine(await run(['create', 'one', '--expires', '-1']), 2, '--expires takes');
		expectOneLine(await run(['create', 'one', '--expires', 'tomorrow']), 2, '--expires takes');
		expect(await database.sql`select count(*)::int from api_keys`).toEqual(before);
	});
});
