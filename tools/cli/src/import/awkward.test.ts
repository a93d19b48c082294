import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { contacts } from '../testing/command.js';

/** Good rows (bitrix_id 1 twice, 3, 9, 11, 15; 2 only with a country) among rows with one error each. */
const file = fileURLToPath(new URL('./fixtures/awkward.csv', import.meta.url));

let database: TestDatabase;

beforeEach(async () => {
	database = await createTestDatabase();
});
afterEach(() => database.drop());

const run = (...args: string[]) => contacts(database.url, ['import', file, ...args]);
const stored = () => database.sql`
	select bitrix_id::int, phone, company_ids::text, name, assigned_by_id::int, trouble_contact, perplexity_reason
	from company_contacts order by bitrix_id`;

const notId = 'bitrix_id: not a positive integer up to 9007199254740991';
const notCompanies = 'company_ids: not positive integers separated by commas';
const notPhone = 'phone: not a valid number with a leading plus (--country takes national numbers too)';
const refusals = [
	`line 3: ${notPhone}`,
	`line 5: ${notId}`,
	`line 6: ${notId}`,
	`line 7: ${notId}`,
	'line 8: bitrix_id: missing',
	`line 9: ${notCompanies}`,
	`line 10: ${notCompanies}`,
	`line 11: ${notCompanies}`,
	`line 12: ${notPhone}`,
	'line 15: trouble_contact: neither "true" nor empty',
	`line 18: ${notCompanies}`,
	'line 19: not as many columns as the head',
	'line 20: not as many columns as the head',
];

const none = {
	phone: null,
	company_ids: null,
	name: null,
	assigned_by_id: null,
	trouble_contact: false,
	perplexity_reason: null,
};
const good = [
	{
		bitrix_id: 1,
		phone: '+79007654321',
		company_ids: '{2,9}',
		name: 'Иван Петров (новый)',
		assigned_by_id: 7,
		trouble_contact: true,
		perplexity_reason: null,
	},
	{ ...none, bitrix_id: 3 },
	{
		bitrix_id: 9,
		phone: '+79001234567',
		company_ids: '{1}',
		name: 'quoted, name "x"',
		assigned_by_id: 5,
		trouble_contact: true,
		perplexity_reason: 'line one\nline two',
	},
	{
		...none,
		bitrix_id: 11,
		phone: '+79001234567',
		company_ids: '{7,8}',
		name: 'twice the same company',
		assigned_by_id: 5,
	},
	{ ...none, bitrix_id: 15, phone: '+79001234567', company_ids: '{4}', name: 'spaces around', assigned_by_id: 5 },
];

describe('a file with a byte order mark, CRLF and wrong rows', () => {
	test('the fixture has the expected rows', async () => {
		const bytes = await readFile(file);
		expect([...bytes.subarray(0, 3)]).toEqual([0xef, 0xbb, 0xbf]);
		expect(bytes.toString('latin1').match(/\r\n/g)).toHaveLength(20);
	});

	test('each wrong row is refused with its line and reason, the good rows are stored, exit 1', async () => {
		const outcome = await run();
		expect(outcome.stderr.split('\n')).toEqual([...refusals, '']);
		expect(await stored()).toEqual(good);
		expect(outcome.code).toBe(1);
		expect(outcome.stdout.split('\n').sort()).toEqual(
			[
				'19 records: 6 good, 13 refused; 5 contacts new, 0 changed.',
				`  3 × ${notId}`,
				'  1 × bitrix_id: missing',
				`  4 × ${notCompanies}`,
				`  2 × ${notPhone}`,
				'  1 × trouble_contact: neither "true" nor empty',
				'  2 × not as many columns as the head',
				'',
			].sort(),
		);
	});

	test('--country RU also accepts the row with the national number, and no other', async () => {
		const outcome = await run('--country', 'ru', '--json');
		expect([outcome.code, JSON.parse(outcome.stdout)]).toEqual([
			1,
			expect.objectContaining({ records: 19, accepted: 7, refused: 12, created: 6, changed: 0 }),
		]);
		expect(outcome.stderr).not.toContain('line 3:');
		expect(outcome.stderr).toContain('line 12: phone: not a valid number\n');
		const second = {
			...none,
			bitrix_id: 2,
			phone: '+79001234568',
			company_ids: '{3}',
			name: 'Пётр',
			assigned_by_id: 6,
		};
		expect(await stored()).toEqual([good[0], second, ...good.slice(1)]);
	});

	test('--dry-run refuses the same rows, writes nothing and needs no database', async () => {
		const outcome = await run('--dry-run');
		expect(outcome.stderr.split('\n')).toEqual([...refusals, '']);
		expect(outcome.stdout).toMatch(/^19 records: 6 good, 13 refused; nothing was written\.\n/);
		expect(outcome.code).toBe(1);
		expect(await stored()).toEqual([]);
		expect(await contacts(undefined, ['import', file, '--dry-run'])).toEqual(outcome);
	});

	test('a second import changes nothing', async () => {
		await run();
		const all = () => database.sql`select *, xmin::text from company_contacts order by id`;
		const before = await all();
		expect((await run()).stdout).toContain('; 0 contacts new, 0 changed.\n');
		expect(await all()).toEqual(before);
	});
});
