import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { beforeEach, describe, expect, onTestFinished } from 'vitest';
import { runContacts } from '../run.js';
import { contacts, environmentOf, expectOneLine, expectWrongUsage } from '../testing/command.js';
import { type GeneratedContact, generateContacts, toCsv } from '../testing/generated-contacts.js';
import { killInSecondBatch } from '../testing/killed.js';

beforeEach(async () => {
	await database.sql`truncate company_contacts restart identity`;
});

const run = (...args: string[]) => contacts(database.url, ['import', ...args]);
const pipe = (input: string | Buffer, ...args: string[]) => contacts(database.url, ['import', '-', ...args], { input });
const load = async (input: string, format = 'csv') =>
	JSON.parse((await pipe(input, '--format', format, '--json')).stdout);
const file = async (name: string, content: string | Buffer) => {
	const path = join(await temporaryFolder(), name);
	await writeFile(path, content);
	return path;
};
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
const tooMany = 'more columns than the first line: a value with a comma needs double quotes';

describe('the format', () => {
	test.each([
		['list.CSV', csv],
		['list.ndjson', ndjson],
		['a name with spaces.2026.jsonl', ndjson],
	])('follows from the name of the file: %s', async (name, content) => {
		expect(await run(await file(name, content))).toEqual({
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
		expect(await run(await file('list.txt', content), '--format', format)).toMatchObject({ code: 0, stderr: '' });
		expect(await names()).toEqual(['a', 'b']);
		expect(await pipe(content.replaceAll('b', 'b'), '--format', format)).toMatchObject({
			code: 0,
			stdout: '2 records: 2 good, 0 refused; 0 contacts new, 0 changed.\n',
		});
	});

	test.each(['list.txt', '.csv', 'list.csv.gz', 'list.constructor'])(
		'that does not follow from the name is wrong usage: %s',
		async (name) => {
			expectOneLine(await run(await file(name, csv)), 2, 'does not end in .csv or .ndjson: say --format');
		},
	);

	test('of standard input is needed, and a terminal is none', async () => {
		expectOneLine(await pipe(csv), 2, 'Standard input has no file name: say --format.');
		const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
		const args = ['import', '-', '--format', 'csv'];
		const streams = { stdin: Object.assign(stdin, { isTTY: true }), stdout, stderr };
		expect(await runContacts(args, environmentOf(database.url), streams)).toBe(2);
		expect(String(stderr.read())).toBe('error: Name a file, or pipe one into this command.\n');
	});
});

describe('an unreadable file fails with one line', () => {
	test('missing, a folder, or a path through a file', async () => {
		const folder = join(await temporaryFolder(), 'folder.csv');
		expectOneLine(await run(folder), 1, `There is no file ${folder}.`);
		await mkdir(folder);
		expectOneLine(await run(folder), 1, `${folder} is a folder.`);
		expectOneLine(await run(join(await file('list.csv', csv), 'list.csv')), 1, "can't be read (ENOTDIR)");
	});

	test.each([
		['list.csv', '', 'The file is empty'],
		['list.csv', 'bitrix_id,name\n\n', 'The file has no records: nothing was imported.'],
		['list.ndjson', '\n\n', 'The file has no records: nothing was imported.'],
		['list.csv', 'id,title\n1,a\n', 'it has others: title'],
	])('without records or columns: %s %j', async (name, content, message) => {
		const path = await file(name, content);
		for (const args of [[], ['--dry-run'], ['--json']]) expectOneLine(await run(path, ...args), 1, message);
	});
});

describe('10,000 good records', () => {
	const generated = generateContacts(10_000, 1);
	const expected = generated.map((contact) => ({
		...contact,
		company_ids: contact.company_ids && [...new Set(contact.company_ids.split(','))].join(),
	}));
	const summary = { records: 10_000, accepted: 10_000, refused: 0, reasons: {} };

	test.each([
		['csv', toCsv(generated)],
		['ndjson', generated.map((contact) => JSON.stringify(contact)).join('\n')],
	])('are stored exactly as in %s, and a second import writes nothing', async (format, content) => {
		expect(await load(content, format)).toEqual({ ...summary, created: 10_000, changed: 0 });
		expect(await stored()).toEqual(expected);
		const before = await rows();
		expect(await load(content, format)).toEqual({ ...summary, created: 0, changed: 0 });
		expect(await rows()).toEqual(before);
	});
});

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
	expect(await database.sql`select id::int, bitrix_id::int from company_contacts order by id`).toEqual([
		{ id: 1, bitrix_id: 5 },
		{ id: 2, bitrix_id: 6 },
	]);
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
			'6,,,too,many',
			'1,,9,the same contact again',
		];
		const broken = lines.join('\r\n');
		expect(await pipe(broken, '--format', 'csv')).toEqual({
			code: 1,
			stdout:
				'7 records: 3 good, 4 refused; 2 contacts new, 0 changed.\n' +
				'  1 × phone: not a valid number with a leading plus (--country takes national numbers too)\n' +
				`  1 × ${notId}\n  1 × company_ids: not positive integers separated by commas\n  1 × ${tooMany}\n`,
			stderr:
				'line 3, bitrix_id 2: phone: not a valid number with a leading plus (--country takes national numbers too)\n' +
				`line 6: ${notId}\nline 7, bitrix_id 5: company_ids: not positive integers separated by commas\nline 8: ${tooMany}\n`,
		});
		expect(await stored()).toMatchObject([
			{ bitrix_id: '1', phone: null, company_ids: '9', name: 'the same contact again' },
			{ bitrix_id: '3', phone: null, company_ids: null, name: 'quoted, "x"\nof two lines' },
		]);
		await database.sql`truncate company_contacts`;
		const dryRun = await contacts(undefined, ['import', '-', '--format', 'csv', '--dry-run', '--country', 'ru'], {
			input: broken,
		});
		expect([dryRun.code, dryRun.stdout]).toEqual([
			1,
			expect.stringMatching(/^7 records: 4 good, 3 refused; nothing was written\.\n/),
		]);
		expect(await names()).toEqual([]);
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
		expect(await names()).toEqual(
			generated.filter((_, index) => index !== 700 && index !== 1300).map(({ name }) => name),
		);
	});

	test.each([
		['csv', (...ids: [string, string]) => `bitrix_id,assigned_by_id,name\n${ids.join()},other\n`],
		['ndjson', (id: string, by: string) => `{"bitrix_id":${id},"name":"other","assigned_by_id":${by}}`],
	])('an ID that only rounding makes an integer: %s', async (format, content) => {
		await database.sql`insert into company_contacts (bitrix_id, name, assigned_by_id) values (1, 'stored', 7)`;
		const before = await rows();
		for (const [field, id, assigned] of [
			['bitrix_id', '0.99999999999999999999', '7'],
			['assigned_by_id', '1', '7.00000000000000000001'],
		] as const) {
			const outcome = await pipe(content(id, assigned), '--format', format);
			expect(outcome.stderr).toContain(`: ${field}: not a positive integer up to 9007199254740991\n`);
			expect(outcome.code).toBe(1);
		}
		expect(await rows()).toEqual(before);
	});
});

test('a terminal shows the reason of a single refused record once, in lines that break between words', async () => {
	const [stdin, stdout, stderr] = [0, 1, 2].map(() => Object.assign(new PassThrough(), { isTTY: true, columns: 50 }));
	if (!stdin || !stdout || !stderr) throw new Error('no streams');
	const path = await file('list.csv', 'bitrix_id,phone\n1,\n9012,12\n');
	expect(await runContacts(['import', path], environmentOf(database.url), { stdin, stdout, stderr })).toBe(1);
	expect(String(stdout.read())).toBe('2 records: 1 good, 1 refused; 1 contact new, 0\nchanged.\n');
	expect(String(stderr.read())).toContain(
		'line 3, bitrix_id 9012: phone: not a valid number\nwith a leading plus (--country takes national\nnumbers too)\n',
	);
	expect((await pipe('bitrix_id\n1\n', '--format', 'csv')).stdout).toMatch(/^1 record: /);
});

describe('a quote that is not closed ends the reading', () => {
	const generated = generateContacts(1700, 11);
	const broken = `${toCsv(generated)}0,,,,,,\n9,"b,,,,,\n8,c,,,,,\n`;
	const line = toCsv(generated).split('\n').length + 1;
	const open = `error: The file can't be read from line ${line} on: a quote is opened there, and none closes it at the end of a field.\n`;

	test('what was good before is stored and counted, the error names the line, and the audit log says so', async () => {
		const path = await file('broken.csv', broken);
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

	test('of a dry run too, which writes nothing, not even to the audit log', async () => {
		const outcome = await run(await file('dry.csv', broken), '--dry-run');
		expect(outcome.stdout).toMatch(/^1701 records: 1700 good, 1 refused; nothing was written\.\n/);
		expect([outcome.code, outcome.stderr.endsWith(open)]).toEqual([1, true]);
		expect(await names()).toEqual([]);
		expect(await database.sql`select from audit_log where details->>'file' = 'dry.csv'`).toHaveLength(0);
	});
});

test('an import that is killed between two batches is in the audit log', async () => {
	const path = await file('killed.csv', toCsv(generateContacts(700, 13)));
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
	const path = () => file('list.csv', 'bitrix_id,phone\n1,030 901820\n');

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
		const path = await file('mirrored.csv', csv);
		expectOneLine(await run(path), 2, /^error: A CRM is mirrored into this database.* say --yes to do it\.$/m);
		expect(await names()).toEqual([]);
		expect(await database.sql`select from audit_log where details->>'file' = 'mirrored.csv'`).toHaveLength(0);
		expect(await run(path, '--dry-run')).toMatchObject({ code: 0, stderr: '' });
		expect(await run(path, '--yes')).toMatchObject({ code: 0, stderr: '' });
		expect(await names()).toEqual(['a', 'b']);
	});

	test.each([
		['n', { code: 1, stored: [] }],
		['y', { code: 0, stored: ['a', 'b'] }],
	])('an import on a terminal asks first, and does what the reply says: %s', async (reply, expected) => {
		const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
		let shown = '';
		stderr.on('data', (text) => {
			shown += text;
		});
		const ended = runContacts(['import', await file('list.csv', csv)], environmentOf(database.url), {
			stdin: Object.assign(stdin, { isTTY: true }),
			stdout: stdout.resume(),
			stderr: Object.assign(stderr, { isTTY: true }),
		});
		await expect.poll(() => shown).toContain('Go on? [y/N]');
		stdin.write(`${reply}\r`);
		expect({ code: await ended, stored: await names() }).toEqual(expected);
	});
});
