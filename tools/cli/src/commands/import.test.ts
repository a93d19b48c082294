import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { beforeEach, describe, expect, onTestFinished } from 'vitest';
import { runContacts } from '../run.js';
import { contacts, environmentOf, expectOneLine, expectWrongUsage, fileWith, replyTo } from '../testing/command.js';
import { type GeneratedContact, generateContacts, toCsv } from '../testing/generated-contacts.js';
import { killInSecondBatch } from '../testing/killed.js';

beforeEach(async () => {
	await database.sql`truncate company_contacts restart identity`;
});

const run = (...args: string[]) => contacts(database.url, ['import', ...args]);
const pipe = (input: string | Buffer, ...args: string[]) => contacts(database.url, ['import', '-', ...args], { input });
const load = async (input: string, format = 'csv') =>
	JSON.parse((await pipe(input, '--format', format, '--json')).stdout);
const names = async () =>
	(await database.sql<{ name: string }[]>`select name from company_contacts order by bitrix_id`).map(
		({ name }) => name,
	);
/** The stored contacts in the format of a file, by bitrix_id. */
const stored = () => database.sql<GeneratedContact[]>`
	select bitrix_id::text, phone, array_to_string(company_ids, ',') as company_ids, name, assigned_by_id::text,
	       case when trouble_contact then 'true' end as trouble_contact, perplexity_reason
	from company_contacts order by company_contacts.bitrix_id`;
const rows = () => database.sql`select *, xmin::text from company_contacts order by id`;

const csv = 'bitrix_id,name\n1,a\n2,b\n';
const ndjson = '{"bitrix_id":1,"name":"a"}\n{"bitrix_id":2,"name":"b"}\n';
const notId = 'bitrix_id: not a positive integer up to 9007199254740991';
const badPhone = 'phone: not a valid number with a leading plus (--country takes national numbers too)';

describe('the format', () => {
	test.each([
		['list.CSV', csv],
		['a name with spaces.2026.jsonl', ndjson],
	])('follows from the name of the file: %s', async (name, content) => {
		expect(await run(await fileWith(content, name))).toEqual({
			code: 0,
			stdout: '2 records: 2 good, 0 refused; 2 contacts new, 0 changed.\n',
			stderr: '',
		});
		expect(await names()).toEqual(['a', 'b']);
	});

	test.each([
		['csv', csv],
		['ndjson', ndjson],
	])('is %s when --format says so, of a file and of standard input', async (format, content) => {
		expect(await run(await fileWith(content, 'list.txt'), '--format', format)).toMatchObject({ code: 0, stderr: '' });
		expect(await names()).toEqual(['a', 'b']);
		expect(await load(content, format)).toMatchObject({ accepted: 2, created: 0, changed: 0 });
	});

	test('that does not follow from the name is wrong usage, and so is a terminal as the file', async () => {
		for (const name of ['list.txt', '.csv', 'list.csv.gz', 'list.constructor'])
			expectOneLine(await run(await fileWith(csv, name)), 2, 'does not end in .csv or .ndjson: say --format');
		expectOneLine(await pipe(csv), 2, 'Standard input has no file name: say --format.');
		const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
		const streams = { stdin: Object.assign(stdin, { isTTY: true }), stdout, stderr };
		expect(await runContacts(['import', '-', '--format', 'csv'], environmentOf(database.url), streams)).toBe(2);
		expect(String(stderr.read())).toBe('error: Name a file, or pipe one into this command.\n');
	});
});

describe('an unreadable file fails with one line', () => {
	test('missing, a folder, or a path through a file', async () => {
		const path = await fileWith(csv);
		const folder = join(dirname(path), 'folder.csv');
		expectOneLine(await run(folder), 1, `There is no file ${folder}.`);
		await mkdir(folder);
		expectOneLine(await run(folder), 1, `${folder} is a folder.`);
		expectOneLine(await run(join(path, 'list.csv')), 1, "can't be read (ENOTDIR)");
	});

	test.each([
		['list.csv', '', 'The file is empty'],
		['list.csv', 'bitrix_id,name\n\n', 'The file has no records: nothing was imported.'],
		['list.ndjson', '\n\n', 'The file has no records: nothing was imported.'],
		['list.csv', 'id,title\n1,a\n', 'it has others: title'],
	])('without records or columns: %s %j', async (name, content, message) => {
		const path = await fileWith(content, name);
		for (const args of [[], ['--dry-run'], ['--json']]) expectOneLine(await run(path, ...args), 1, message);
	});
});

test.each(['csv', 'ndjson'])(
	'10,000 good records are stored exactly as in %s, and a second import writes nothing',
	async (format) => {
		const generated = generateContacts(10_000, 1);
		const content =
			format === 'csv' ? toCsv(generated) : generated.map((contact) => JSON.stringify(contact)).join('\n');
		const summary = { records: 10_000, accepted: 10_000, refused: 0, reasons: {} };
		expect(await load(content, format)).toEqual({ ...summary, created: 10_000, changed: 0 });
		const expected = generated.map((contact) => ({
			...contact,
			company_ids: contact.company_ids && [...new Set(contact.company_ids.split(','))].join(),
		}));
		expect(await stored()).toEqual(expected);
		const before = await rows();
		expect(await load(content, format)).toEqual({ ...summary, created: 0, changed: 0 });
		expect(await rows()).toEqual(before);
	},
);

test('an import writes only changed contacts: id and created_at stay', async () => {
	const [first, second, third] = generateContacts(3, 2);
	if (!first || !second || !third) throw new Error('no contacts');
	await load(toCsv([first, second]));
	const before = await rows();
	const summary = await load(toCsv([{ ...first, name: 'New', phone: null }, second, third]));
	expect(summary).toMatchObject({ created: 1, changed: 1 });
	const after = await rows();
	expect(after[1]).toEqual(before[1]);
	expect(after[0]).toMatchObject({ id: before[0]?.id, created_at: before[0]?.created_at, name: 'New', phone: null });
	expect(after).toHaveLength(3);
});

test.each([1, 499, 500, 501, 1200])(
	'of two records of a contact the later one wins, %d records apart',
	async (apart) => {
		const between = generateContacts(apart, 3).slice(1);
		const lines = ['{"bitrix_id":5,"name":"earlier","phone":"+79001234568"}', '{"bitrix_id":5,"name":"later"}'];
		const input = [lines[0], ...between.map((contact) => JSON.stringify(contact)), lines[1]].join('\n');
		expect(await load(input, 'ndjson')).toMatchObject({ records: apart + 1, refused: 0 });
		expect((await stored())[0]).toMatchObject({ bitrix_id: '5', name: 'later', phone: '+79001234568' });
		expect(await rows()).toHaveLength(apart);
	},
);

test('an id in the file is ignored', async () => {
	await load('id,bitrix_id,name\n777,5,a\nnonsense,6,b\n');
	expect([...(await database.sql`select id::int, bitrix_id::int from company_contacts order by id`)]).toEqual([
		{ id: 1, bitrix_id: 5 },
		{ id: 2, bitrix_id: 6 },
	]);
});

describe('what a record lacks keeps what is stored, and what is empty clears it', () => {
	const full = generateContacts(1, 9)[0] as GeneratedContact;
	const id = full.bitrix_id;
	const nothing = {
		phone: null,
		company_ids: null,
		name: null,
		assigned_by_id: null,
		trouble_contact: null,
		perplexity_reason: null,
	};
	const before = { ...full, phone: '+79001234567', company_ids: '7,1', name: 'Ann', trouble_contact: 'true' };

	beforeEach(async () => {
		await load(toCsv([before]));
	});

	test('in CSV, where the first line names the columns', async () => {
		expect(await load(`bitrix_id,name\n${id},Anna\n2,Bob\n`)).toMatchObject({ created: 1, changed: 1 });
		expect(await stored()).toEqual([
			{ ...nothing, bitrix_id: '2', name: 'Bob' },
			{ ...before, name: 'Anna' },
		]);
		await load(`trouble_contact,bitrix_id,phone\n,${id},\n`);
		expect((await stored())[1]).toEqual({ ...before, name: 'Anna', phone: null, trouble_contact: null });
	});

	test('in each record of NDJSON', async () => {
		const records = [
			{ bitrix_id: id, name: null, trouble_contact: false },
			{ bitrix_id: id },
			{ bitrix_id: 4, assigned_by_id: 9 },
		];
		const input = records.map((record) => JSON.stringify(record)).join('\n');
		expect(await load(input, 'ndjson')).toMatchObject({ accepted: 3, created: 1, changed: 1 });
		expect(await stored()).toEqual([
			{ ...nothing, bitrix_id: '4', assigned_by_id: '9' },
			{ ...before, name: null, trouble_contact: null },
		]);
	});

	test('also where somebody else writes it at the same moment', async () => {
		const other = postgres(database.url, { max: 1, fetch_types: false });
		try {
			await other`begin`;
			await other`update company_contacts set name = 'Other'`;
			const imported = load(`bitrix_id,phone\n${id},+442079460101\n`);
			const waiting = () => database.sql`
				select from pg_locks where not granted and relation = 'company_contacts'::regclass`;
			await expect.poll(waiting).toHaveLength(1);
			await other`commit`;
			expect(await imported).toMatchObject({ changed: 1 });
			expect(await stored()).toEqual([{ ...before, name: 'Other', phone: '+442079460101' }]);
		} finally {
			await other.end();
		}
	});
});

describe('a wrong record is refused with its line and reason, and the others are saved: exit 1', () => {
	test('CSV as Excel writes it, with a byte order mark and CRLF', async () => {
		const lines = [
			'\uFEFFbitrix_id,phone,company_ids,name',
			'1,+7 900 123-45-67,"7, 1,7", spaces around ',
			'2,89001234567,3,national number',
			'3,,,"quoted, ""x""',
			'of two lines"',
			'0,,,zero',
			'5,,"1,,2",companies',
			'1,,9,the same contact again',
		];
		const outcome = await pipe(lines.join('\r\n'), '--format', 'csv');
		const notCompanies = 'company_ids: not positive integers separated by commas';
		expect(outcome).toEqual({
			code: 1,
			stdout: `6 records: 3 good, 3 refused; 2 contacts new, 0 changed.\n  1 × ${badPhone}\n  1 × ${notId}\n  1 × ${notCompanies}\n`,
			stderr: `line 3, bitrix_id 2: ${badPhone}\nline 6: ${notId}\nline 7, bitrix_id 5: ${notCompanies}\n`,
		});
		expect(await stored()).toMatchObject([
			{ bitrix_id: '1', phone: null, company_ids: '9', name: 'the same contact again' },
			{ bitrix_id: '3', phone: null, company_ids: null, name: 'quoted, "x"\nof two lines' },
		]);
	});

	test('NDJSON of thousands, in whatever batch', async () => {
		const generated = generateContacts(2000, 4);
		const lines = generated.map((contact) => JSON.stringify(contact));
		lines.splice(700, 1, '{"bitrix_id":"0"}');
		lines.splice(1300, 1, '{"bitrix_id":');
		const outcome = await pipe(lines.join('\n'), '--format', 'ndjson', '--json');
		expect(outcome.stderr.match(/^line .*$/gm)).toEqual([`line 701: ${notId}`, 'line 1301: not a JSON object']);
		expect(JSON.parse(outcome.stdout)).toEqual({
			...{ records: 2000, accepted: 1998, refused: 2, created: 1998, changed: 0 },
			reasons: { [notId]: 1, 'not a JSON object': 1 },
		});
		expect(outcome.code).toBe(1);
		const good = generated.filter((_, index) => index !== 700 && index !== 1300);
		expect(await names()).toEqual(good.map(({ name }) => name));
	});

	test('an ID that only rounding makes an integer', async () => {
		const digits = ['0.99999999999999999999', '7.00000000000000000001'];
		const csv = `bitrix_id,assigned_by_id\n${digits[0]},7\n1,${digits[1]}\n`;
		const ndjson = `{"bitrix_id":${digits[0]}}\n{"bitrix_id":1,"assigned_by_id":${digits[1]}}\n`;
		const reasons = { [notId]: 1, [notId.replace('bitrix_id', 'assigned_by_id')]: 1 };
		expect([await load(csv), await load(ndjson, 'ndjson')]).toMatchObject([{ reasons }, { reasons }]);
		expect(await rows()).toHaveLength(0);
	});

	test('on a terminal, which shows the reason of a single one once, in lines that break between words', async () => {
		const [stdin, stdout, stderr] = [0, 1, 2].map(() => Object.assign(new PassThrough(), { isTTY: true, columns: 50 }));
		if (!stdin || !stdout || !stderr) throw new Error('no streams');
		const path = await fileWith('bitrix_id,phone\n1,\n9012,12\n');
		expect(await runContacts(['import', path], environmentOf(database.url), { stdin, stdout, stderr })).toBe(1);
		expect(String(stdout.read())).toBe('2 records: 1 good, 1 refused; 1 contact new, 0\nchanged.\n');
		expect(String(stderr.read())).toContain('line 3, bitrix_id 9012: phone: not a valid number\nwith a leading plus');
	});
});

test('a dry run checks every record, needs no database, and writes nothing', async () => {
	const path = await fileWith('bitrix_id,phone\n1,8 (900) 123-45-67\n0,\n');
	const outcome = await contacts(undefined, ['import', path, '--dry-run', '--country', 'ru']);
	expect(outcome).toMatchObject({
		code: 1,
		stdout: expect.stringMatching(/^2 records: 1 good, 1 refused; nothing was written/),
	});
	await run(path, '--dry-run');
	expect(await names()).toEqual([]);
});

const generated = generateContacts(1700, 11);
const broken = `${toCsv(generated)}0,,,,,,\n9,"b,,,,,\n8,c,,,,,\n`;
const line = toCsv(generated).split('\n').length + 1;
const open = `error: The file can't be read from line ${line} on: a quote is opened there, and none closes it at the end of a field.\n`;

test('a quote that is not closed ends the reading: what was good before is stored and counted, and the audit log says so', async () => {
	const path = await fileWith(broken, 'broken.csv');
	const outcome = await run(path, '--json');
	const counts = { records: 1701, accepted: 1700, refused: 1, created: 1700, changed: 0 };
	expect(JSON.parse(outcome.stdout)).toEqual({ ...counts, reasons: { [notId]: 1 } });
	expect(outcome.stderr).toContain(open);
	expect(outcome.code).toBe(1);
	expect(await names()).toEqual(generated.map(({ name }) => name));
	const log =
		await database.sql`select action, details from audit_log where details->>'file' = 'broken.csv' order by id`;
	expect([...log]).toEqual([
		{ action: 'contacts import started', details: { file: 'broken.csv' } },
		{ action: 'contacts imported', details: { file: 'broken.csv', ...counts, broken_off: true } },
	]);
});

test('an import that is killed between two batches is in the audit log', async () => {
	const path = await fileWith(toCsv(generateContacts(700, 13)), 'killed.csv');
	await killInSecondBatch(database, database.url, ['import', path], { table: 'company_contacts', change: 'insert' });
	expect(await names()).toHaveLength(500);
	const log = await database.sql`select action, details from audit_log where details->>'file' = 'killed.csv'`;
	expect(log).toEqual([{ action: 'contacts import started', details: { file: 'killed.csv' } }]);
});

test('an import ends with one line when the database refuses a contact, and what was saved before stays', async () => {
	await database.sql`alter table company_contacts add constraint canary check (bitrix_id <> 1001800)`;
	onTestFinished(async () => void (await database.sql`alter table company_contacts drop constraint canary`));
	expectOneLine(await pipe(toCsv(generateContacts(1000, 6)), '--format', 'csv'), 1, 'canary');
	expect(await names()).toHaveLength(500);
});

test('an import deletes tombstones of contacts that were deleted more than 62 days ago', async () => {
	await database.sql`insert into company_contacts (bitrix_id) values (900), (901)`;
	await database.sql`delete from company_contacts`;
	await database.sql`update company_contacts_changes set deleted_at = now() - interval '63 days' where bitrix_id = 900`;
	expect(await pipe(csv, '--format', 'csv')).toMatchObject({ code: 0, stderr: '' });
	const left =
		await database.sql`select bitrix_id::int as id from company_contacts_changes where bitrix_id in (900, 901)`;
	expect([...left]).toEqual([{ id: 901 }]);
});

describe('--country', () => {
	const path = () => fileWith('bitrix_id,phone\n1,030 901820\n');

	test('reads national numbers as numbers of this country', async () => {
		expect(await run(await path(), '--country', 'de')).toMatchObject({ code: 0 });
		expect(await stored()).toMatchObject([{ phone: '+4930901820' }]);
	});

	test.each(['XX', 'Germany', ''])('that is invalid is wrong usage: %j', async (country) => {
		const expected = '--country takes an ISO country code';
		await expectWrongUsage(database.url, ['import', await path(), '--country', country], expected);
		expect(await names()).toEqual([]);
	});
});

describe('where a CRM is mirrored', () => {
	beforeEach(async () => {
		await database.sql`update crm_sync_state set configuration = '{"portal": "example.bitrix24.com"}'`;
		onTestFinished(async () => void (await database.sql`update crm_sync_state set configuration = null`));
	});

	test('an import that can ask nobody is refused without --yes, and writes nothing; a dry run asks nothing', async () => {
		const path = await fileWith(csv, 'mirrored.csv');
		expectOneLine(await run(path), 2, /^error: A CRM is mirrored into this database.* say --yes to do it\.$/m);
		expect(await names()).toEqual([]);
		expect(await database.sql`select from audit_log where details->>'file' = 'mirrored.csv'`).toHaveLength(0);
		expect(await run(path, '--dry-run')).toMatchObject({ code: 0, stderr: '' });
		expect(await run(path, '--yes')).toMatchObject({ code: 0, stderr: '' });
		expect(await names()).toEqual(['a', 'b']);
	});

	test.each([
		['n', 1, []],
		['y', 0, ['a', 'b']],
	] as const)('an import on a terminal asks first, and does what the reply says: %s', async (reply, code, expected) => {
		expect(await replyTo(database.url, ['import', await fileWith(csv)], reply)).toMatchObject({ code });
		expect(await names()).toEqual(expected);
	});
});
