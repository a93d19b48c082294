import { urlAs } from '@contacts/common/database/roles.js';
import { saveCompanyContacts } from '@contacts/company-contacts/save-company-contacts.sql.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect } from 'vitest';
import { contacts, expectOneLine } from '../testing/command.js';

test.beforeAll(async () => {
	await saveCompanyContacts(database.sql, [
		{ bitrix_id: 1002, phone: '+442079460101', company_ids: ['1'], name: 'Alice' },
		{ bitrix_id: 1005, phone: '+442079460102', company_ids: ['7', '1'], name: 'Boris' },
		{ bitrix_id: 1007, phone: '+12025550103', company_ids: ['11'], name: 'Chen' },
	]);
});

/** Runs as the operator, whose rights must suffice. */
const run = (...args: string[]) => contacts(urlAs(database.url, 'operator', rolePassword), ['contact', ...args]);
async function namesOf(...args: string[]): Promise<string[]> {
	const outcome = await run('list', ...args, '--json');
	expect([outcome.code, outcome.stderr]).toEqual([0, '']);
	return JSON.parse(outcome.stdout).map(({ name }: { name: string }) => name);
}

describe('contact list', () => {
	test('shows all contacts, or filters by company, by number, or by both', async () => {
		expect(await namesOf()).toEqual(['Alice', 'Boris', 'Chen']);
		expect(await namesOf('--company', '1')).toEqual(['Alice', 'Boris']);
		expect(await namesOf('--company', '9223372036854775807')).toEqual([]);
		expect(await namesOf('--phone', '+44 20 7946 0102')).toEqual(['Boris']);
		expect(await namesOf('--company', '11', '--phone', '+442079460102')).toEqual([]);
	});

	test('prints a table, and says when it is cut off', async () => {
		const outcome = await run('list', '--limit', '2');
		expect(outcome).toMatchObject({ code: 0, stderr: 'There are more than 2: see --limit.\n' });
		expect(outcome.stdout.split('\n').map((line) => line.split(/ +/).slice(1, 4))).toEqual([
			['bitrix_id', 'phone', 'company_ids'],
			['1002', '+442079460101', '1'],
			['1005', '+442079460102', '7,1'],
			[],
		]);
		expect((await run('list', '--limit', '3')).stderr).toBe('');
	});

	test.each([
		['--company', '0', '--company is a positive integer'],
		['--company', '9223372036854775808', '--company is a positive integer'],
		['--phone', '020 7946 0102', '--phone takes a valid number with a leading plus'],
		['--limit', '0', '--limit takes a positive integer'],
	])('%s %s is wrong usage', async (option, value, message) => {
		expectOneLine(await run('list', option, value), 2, message);
	});
});

describe('contact get', () => {
	test('shows one contact with the fields of the list', async () => {
		expect(JSON.parse((await run('get', '1005', '--json')).stdout)).toEqual({
			id: expect.any(Number),
			bitrix_id: 1005,
			phone: '+442079460102',
			company_ids: '7,1',
			name: 'Boris',
			assigned_by_id: null,
			trouble_contact: null,
			perplexity_reason: null,
		});
		expect((await run('get', '1005')).stdout).toMatch(/ 1005 +\+442079460102 +7,1 +Boris /);
	});

	test('fails for an unknown ID and for an invalid one', async () => {
		expectOneLine(await run('get', '4711'), 1, 'There is no contact with the bitrix_id 4711.');
		expectOneLine(await run('get', 'x'), 2, 'bitrix_id is a positive integer');
	});
});
