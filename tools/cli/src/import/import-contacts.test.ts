import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectOneLine, contacts as runContacts } from '../testing/command.js';
import { type GeneratedContact, generateContacts, toCsv } from '../testing/generated-contacts.js';

let database: TestDatabase;

beforeEach(async () => {
	database = await createTestDatabase();
});
afterEach(() => database.drop());

/** Imports a file. @returns the summary with the refusals */
async function load(input: string, format = 'csv') {
	const outcome = await runContacts(database.url, ['import', '-', '--format', format, '--json'], { input });
	const refusals = outcome.stderr.split('\n').filter((line) => line.startsWith('line '));
	return { ...JSON.parse(outcome.stdout), refusals };
}

const toNdjson = (contacts: readonly GeneratedContact[]) =>
	contacts.map((contact) => `${JSON.stringify(contact)}\n`).join('');

/** The stored contacts in the format of a file, by bitrix_id. */
const stored = () => database.sql<GeneratedContact[]>`
	select bitrix_id::text, phone, array_to_string(company_ids, ',') as company_ids, name, assigned_by_id::text,
	       case when trouble_contact then 'true' end as trouble_contact, perplexity_reason
	from company_contacts order by bitrix_id`;
const rows = () => database.sql`
	select *, xmin::text, updated_at::text as moved from company_contacts order by id`;
const expected = (contacts: readonly GeneratedContact[]) =>
	contacts.map((contact) => ({
		...contact,
		company_ids: contact.company_ids && [...new Set(contact.company_ids.split(','))].join(),
	}));

describe('10,000 good records', () => {
	const contacts = generateContacts(10_000, 1);

	test('are stored exactly as in the file, and a second import writes nothing', async () => {
		const summary = { records: 10_000, accepted: 10_000, refused: 0, reasons: {}, refusals: [] };
		expect(await load(toCsv(contacts))).toEqual({ ...summary, created: 10_000, changed: 0 });
		expect(await stored()).toEqual(expected(contacts));

		const before = await rows();
		expect(await load(toCsv(contacts))).toEqual({ ...summary, created: 0, changed: 0 });
		expect(await rows()).toEqual(before);
	});

	test('give the same table from NDJSON and CSV', async () => {
		await load(toCsv(contacts));
		const table = await stored();
		const file = toNdjson(contacts);
		expect(await load(file, 'ndjson')).toMatchObject({ records: 10_000, refused: 0, created: 0, changed: 0 });
		await database.sql`delete from company_contacts`;
		expect(await load(file, 'ndjson')).toMatchObject({ refused: 0, created: 10_000, changed: 0 });
		expect(await stored()).toEqual(table);
	});

	test('give the same table in any order', async () => {
		await load(toCsv(contacts.toReversed()));
		expect(await stored()).toEqual(expected(contacts));
	});
});

describe('changes', () => {
	test('an import writes only changed contacts: id and created_at stay, updated_at increases', async () => {
		const [first, second, third] = generateContacts(3, 2);
		if (!first || !second || !third) throw new Error('no contacts');
		await load(toCsv([first, second]));
		const before = await rows();
		const summary = await load(toCsv([{ ...first, name: 'New', phone: null }, second, third]));
		expect(summary).toMatchObject({ created: 1, changed: 1 });
		const after = await rows();
		expect(after[1]).toEqual(before[1]);
		expect(after[0]).toMatchObject({ id: before[0]?.id, created_at: before[0]?.created_at, name: 'New', phone: null });
		expect(after[0]?.moved > before[0]?.moved).toBe(true);
		expect(after).toHaveLength(3);
	});

	test.each([1, 499, 500, 501, 1200])(
		'of two records of a contact the later one wins, %d records apart',
		async (apart) => {
			const between = generateContacts(apart, 3);
			const file = toCsv([
				...between.slice(0, 1).map((contact) => ({ ...contact, bitrix_id: '5', name: 'earlier' })),
				...between.slice(1),
				...between.slice(0, 1).map((contact) => ({ ...contact, bitrix_id: '5', name: 'later' })),
			]);
			expect(await load(file)).toMatchObject({ records: apart + 1, refused: 0 });
			const found = await database.sql`select name from company_contacts where bitrix_id = 5`;
			expect(found).toEqual([{ name: 'later' }]);
			expect((await rows()).length).toBe(apart);
		},
	);

	test('an import ignores an id in the file', async () => {
		await load('id,bitrix_id,name\n777,5,a\nnonsense,6,b\n');
		expect(await database.sql`select id::int, bitrix_id::int from company_contacts order by id`).toEqual([
			{ id: 1, bitrix_id: 5 },
			{ id: 2, bitrix_id: 6 },
		]);
	});
});

describe('failures', () => {
	test('only the wrong record among thousands is left out', async () => {
		const contacts = generateContacts(2000, 4);
		const lines = contacts.map((contact) => JSON.stringify(contact));
		lines.splice(700, 1, '{"bitrix_id":"0"}');
		lines.splice(1300, 1, 'nonsense');
		const summary = await load(lines.join('\n'), 'ndjson');
		expect(summary.refusals).toEqual([
			'line 701: bitrix_id: not a positive integer up to 9007199254740991',
			'line 1301: not a JSON object',
		]);
		expect(summary).toMatchObject({ records: 2000, accepted: 1998, refused: 2, created: 1998 });
		expect(summary.reasons).toEqual({
			'bitrix_id: not a positive integer up to 9007199254740991': 1,
			'not a JSON object': 1,
		});
		expect(await stored()).toEqual(expected(contacts.filter((_, index) => index !== 700 && index !== 1300)));
	});

	test('an import ends with one line when the database refuses a contact, and what was saved before stays', async () => {
		await database.sql`alter table company_contacts add constraint canary check (bitrix_id <> 1001800)`;
		const outcome = await runContacts(database.url, ['import', '-', '--format', 'csv'], {
			input: toCsv(generateContacts(1000, 6)),
		});
		expectOneLine(outcome, 1, 'canary');
		expect(await stored()).toHaveLength(500);
	});
});
