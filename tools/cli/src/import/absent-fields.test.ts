import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { beforeEach, describe, expect } from 'vitest';
import { contacts } from '../testing/command.js';

/** The stored fields of contact 1 before each import. */
const full = {
	bitrix_id: 1,
	phone: '+79001234567',
	company_ids: '{7,1}',
	name: 'Ann',
	assigned_by_id: 5,
	trouble_contact: true,
	perplexity_reason: 'Asks why',
};
const empty = {
	phone: null,
	company_ids: null,
	name: null,
	assigned_by_id: null,
	trouble_contact: false,
	perplexity_reason: null,
};

beforeEach(async () => {
	await database.sql`truncate company_contacts`;
	await load(
		'bitrix_id,phone,company_ids,name,assigned_by_id,trouble_contact,perplexity_reason\n1,+79001234567,"7,1",Ann,5,true,Asks why',
	);
});

/** @returns the summary */
async function load(input: string, format = 'csv') {
	const { stdout } = await contacts(database.url, ['import', '-', '--format', format, '--json'], { input });
	return JSON.parse(stdout);
}

const stored = () => database.sql`
	select bitrix_id::int, phone, company_ids::text, name, assigned_by_id::int, trouble_contact, perplexity_reason
	from company_contacts order by bitrix_id`;

describe('CSV', () => {
	test('a column missing from the header keeps the stored value, and is null for a new contact', async () => {
		expect(await load('bitrix_id,name\n1,Anna\n2,Bob\n')).toMatchObject({ created: 1, changed: 1 });
		expect(await stored()).toEqual([
			{ ...full, name: 'Anna' },
			{ ...empty, bitrix_id: 2, name: 'Bob' },
		]);
	});

	test('an empty cell clears the stored value', async () => {
		expect(await load('trouble_contact,bitrix_id,phone\n,1,\n')).toMatchObject({ created: 0, changed: 1 });
		expect(await stored()).toEqual([{ ...full, phone: null, trouble_contact: false }]);
	});
});

describe('NDJSON', () => {
	const loadRecords = (...records: object[]) =>
		load(records.map((record) => JSON.stringify(record)).join('\n'), 'ndjson');

	test('in each record an absent field keeps the stored value, and an explicit null clears it', async () => {
		await load('bitrix_id,name,phone\n2,Bob,+79001234568\n3,Cy,+79001234569\n');
		const summary = await loadRecords(
			{ bitrix_id: 1, name: null, trouble_contact: false },
			{ bitrix_id: 2, phone: '' },
			{ bitrix_id: 3 },
			{ bitrix_id: 4, assigned_by_id: 9 },
		);
		expect(summary).toMatchObject({ accepted: 4, created: 1, changed: 2 });
		expect(await stored()).toEqual([
			{ ...full, name: null, trouble_contact: false },
			{ ...empty, bitrix_id: 2, name: 'Bob' },
			{ ...empty, bitrix_id: 3, name: 'Cy', phone: '+79001234569' },
			{ ...empty, bitrix_id: 4, assigned_by_id: 9 },
		]);
	});
});

test('a column missing from the header keeps what somebody else writes at the same moment', async () => {
	const other = postgres(database.url, { max: 1, fetch_types: false });
	try {
		await other`begin`;
		await other`update company_contacts set name = 'Other' where bitrix_id = 1`;
		const imported = load('bitrix_id,phone\n1,+442079460101\n');
		const waiting = () => database.sql`
			select from pg_locks where not granted and relation = 'company_contacts'::regclass`;
		await expect.poll(waiting).toHaveLength(1);
		await other`commit`;
		expect(await imported).toMatchObject({ changed: 1 });
		expect(await stored()).toEqual([{ ...full, name: 'Other', phone: '+442079460101' }]);
	} finally {
		await other.end();
	}
});
