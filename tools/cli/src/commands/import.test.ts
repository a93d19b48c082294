import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { beforeEach, describe, expect } from 'vitest';
import { runContacts } from '../run.js';
import { contacts, environmentOf, expectOneLine, expectWrongUsage } from '../testing/command.js';
import { generateContacts, toCsv } from '../testing/generated-contacts.js';
import { killInSecondBatch } from '../testing/killed.js';

beforeEach(async () => {
	await database.sql`truncate company_contacts`;
});

const run = (...args: string[]) => contacts(database.url, ['import', ...args]);
const file = async (name: string, content: string | Buffer) => {
	const path = join(await temporaryFolder(), name);
	await writeFile(path, content);
	return path;
};
const names = async () =>
	(await database.sql<{ name: string }[]>`select name from company_contacts order by bitrix_id`).map(
		({ name }) => name,
	);

const csv = 'bitrix_id,name\n1,a\n2,b\n';
const ndjson = '{"bitrix_id":1,"name":"a"}\n{"bitrix_id":2,"name":"b"}\n';

describe('the format', () => {
	test.each([
		['list.csv', csv],
		['list.CSV', csv],
		['list.ndjson', ndjson],
		['list.jsonl', ndjson],
		['a name with spaces.2026.csv', csv],
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
	])('is %s when --format says so, whatever the name', async (format, content) => {
		expect(await run(await file('list.txt', content), '--format', format)).toMatchObject({ code: 0, stderr: '' });
		expect(await names()).toEqual(['a', 'b']);
	});

	test.each(['list.txt', 'list', '.csv', 'list.json', 'list.csv.gz', 'list.constructor', 'list.toString'])(
		'that does not follow from the name is wrong usage: %s',
		async (name) => {
			const expected = 'does not end in .csv or .ndjson: say --format';
			await expectWrongUsage(database.url, ['import', await file(name, csv)], expected);
		},
	);
});

test('an unknown format ends with exit 2 and one line', async () => {
	expectOneLine(await run(await file('list.txt', csv)), 2, 'does not end in .csv or .ndjson: say --format');
});

describe('an unreadable file fails with one line', () => {
	test('missing', async () => {
		const path = join(await temporaryFolder(), 'missing.csv');
		expectOneLine(await run(path), 1, `There is no file ${path}.`);
	});

	test('a folder', async () => {
		const path = join(await temporaryFolder(), 'folder.csv');
		await mkdir(path);
		expectOneLine(await run(path), 1, `${path} is a folder.`);
	});

	test('a path through a file', async () => {
		expectOneLine(await run(join(await file('list.csv', csv), 'list.csv')), 1, "can't be read (ENOTDIR)");
	});

	test('empty', async () => {
		expectOneLine(await run(await file('list.csv', '')), 1, 'The file is empty');
	});

	test.each([
		['list.csv', 'bitrix_id,name\n\n'],
		['list.ndjson', ''],
		['list.ndjson', '\n\n'],
	])('without records: %s %j', async (name, content) => {
		const path = await file(name, content);
		for (const args of [[], ['--dry-run'], ['--json']])
			expectOneLine(await run(path, ...args), 1, 'The file has no records: nothing was imported.');
	});

	test('with other columns', async () => {
		expectOneLine(await run(await file('list.csv', 'id,title\n1,a\n')), 1, 'it has others: title');
	});
});

describe('a quote that is not closed', () => {
	const open =
		"error: The file can't be read from line 4 on: a quote is opened there, and none closes it at the end of a field.";
	const broken = 'bitrix_id,name\n1,a\n0,x\n2,"b\n3,c\n';

	test('ends the reading: what was good before is stored and counted, and the error names the line', async () => {
		expect(await run(await file('list.csv', broken))).toEqual({
			code: 1,
			stdout:
				'2 records: 1 good, 1 refused; 1 contacts new, 0 changed.\n' +
				'  1 × bitrix_id: not a positive integer up to 9007199254740991\n',
			stderr: `line 3: bitrix_id: not a positive integer up to 9007199254740991\n${open}\n`,
		});
		expect(await names()).toEqual(['a']);
	});

	test('loses nothing of several batches before it', async () => {
		const generated = generateContacts(1700, 11);
		const outcome = await run(await file('list.csv', `${toCsv(generated)}9,"b,,,,,\n`), '--json');
		expect(JSON.parse(outcome.stdout)).toMatchObject({ records: 1700, accepted: 1700, refused: 0, created: 1700 });
		expect(outcome.stderr).toContain('a quote is opened there');
		expect(outcome.code).toBe(1);
		expect(await names()).toEqual(generated.map(({ name }) => name));
	});

	test('ends a dry run in the same way, which writes nothing', async () => {
		const outcome = await run(await file('list.csv', broken), '--dry-run');
		expect(outcome.stdout).toMatch(/^2 records: 1 good, 1 refused; nothing was written\.\n/);
		expect([outcome.code, outcome.stderr.endsWith(`${open}\n`)]).toEqual([1, true]);
		expect(await names()).toEqual([]);
	});
});

describe('standard input', () => {
	const pipe = (input: string | Buffer, ...args: string[]) =>
		contacts(database.url, ['import', '-', ...args], { input });

	test.each([
		['csv', csv],
		['ndjson', ndjson],
	])('is read as %s', async (format, content) => {
		expect(await pipe(content, '--format', format)).toEqual({
			code: 0,
			stdout: '2 records: 2 good, 0 refused; 2 contacts new, 0 changed.\n',
			stderr: '',
		});
		expect(await names()).toEqual(['a', 'b']);
	});

	test('without --format is wrong usage', async () => {
		expectOneLine(await pipe(csv), 2, 'Standard input has no file name: say --format.');
	});

	test('that is a terminal is wrong usage', async () => {
		const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
		const terminal = Object.assign(stdin, { isTTY: true });
		const args = ['import', '-', '--format', 'csv'];
		const code = await runContacts(args, environmentOf(database.url), { stdin: terminal, stdout, stderr });
		expect([code, String(stderr.read())]).toEqual([2, 'error: Name a file, or pipe one into this command.\n']);
	});

	test('without records fails', async () => {
		expectOneLine(await pipe('', '--format', 'ndjson'), 1, 'The file has no records: nothing was imported.');
	});
});

test('an import that is killed between two batches is in the audit log', async () => {
	const path = await file('killed.csv', toCsv(generateContacts(700, 13)));
	await killInSecondBatch(database, database.url, ['import', path], { table: 'company_contacts', change: 'insert' });
	expect(await names()).toHaveLength(500);
	const log = await database.sql`select action, details from audit_log where details->>'file' = 'killed.csv'`;
	expect(log).toEqual([{ action: 'contacts import started', details: { file: 'killed.csv' } }]);
});

test('NDJSON with one wrong line: the others are saved, exit 1', async () => {
	const outcome = await run(await file('list.ndjson', ndjson.replace('\n', '\n{"bitrix_id":\n')));
	expect(outcome).toEqual({
		code: 1,
		stdout: '3 records: 2 good, 1 refused; 2 contacts new, 0 changed.\n  1 × not a JSON object\n',
		stderr: 'line 2: not a JSON object\n',
	});
	expect(await names()).toEqual(['a', 'b']);
});

test('a text that is too long is refused with its line and reason, and the other records are saved', async () => {
	const csv = `bitrix_id,name,perplexity_reason\n1,a,\n2,${'x'.repeat(1001)},\n3,c,${'x'.repeat(10_001)}\n4,d,${'x'.repeat(10_000)}\n`;
	const outcome = await run(await file('long.csv', csv));
	expect(outcome).toMatchObject({
		code: 1,
		stderr: 'line 3: name: longer than 1000 characters\nline 4: perplexity_reason: longer than 10000 characters\n',
	});
	expect(await names()).toEqual(['a', 'd']);
});

describe('an ID that only rounding makes an integer is refused, and the stored contact stays', () => {
	const object = (id: string, assigned: string) => `{"bitrix_id":${id},"name":"other","assigned_by_id":${assigned}}`;

	test.each([
		['list.csv', (...ids: [string, string]) => `bitrix_id,assigned_by_id,name\n${ids.join()},other\n`],
		['list.ndjson', object],
	])('%s', async (name, format) => {
		await database.sql`insert into company_contacts (bitrix_id, name, assigned_by_id) values (1, 'stored', 7)`;
		for (const [field, id, assigned] of [
			['bitrix_id', '0.99999999999999999999', '7'],
			['bitrix_id', '1.00000000000000000001', '7'],
			['assigned_by_id', '1', '7.00000000000000000001'],
		] as const) {
			const outcome = await run(await file(name, format(id, assigned)));
			expect(outcome.stderr).toContain(`: ${field}: not a positive integer up to 9007199254740991\n`);
			expect(outcome.code).toBe(1);
		}
		const stored = await database.sql`
			select bitrix_id::int, name, assigned_by_id::int, created_at = updated_at as unchanged from company_contacts`;
		expect([...stored]).toEqual([{ bitrix_id: 1, name: 'stored', assigned_by_id: 7, unchanged: true }]);
	});
});

test('an import of 10,000 contacts stores all, a second one changes nothing, and --json says so', async () => {
	const generated = generateContacts(10_000, 12);
	const path = await file('list.csv', toCsv(generated));
	const summary = { records: 10_000, accepted: 10_000, refused: 0, reasons: {} };
	const first = await run(path, '--json');
	expect([first.code, first.stderr, JSON.parse(first.stdout)]).toEqual([
		0,
		// On a busy machine it takes long enough for lines of progress.
		expect.stringMatching(/^(\d+ records, .+ left\n)*$/),
		{ ...summary, created: 10_000, changed: 0 },
	]);
	expect(await names()).toEqual(generated.map(({ name }) => name));
	const all = () => database.sql`select *, xmin::text from company_contacts order by id`;
	const before = await all();
	const second = await run(path, '--json');
	expect([second.code, JSON.parse(second.stdout)]).toEqual([0, { ...summary, created: 0, changed: 0 }]);
	expect(await all()).toEqual(before);
});

test('an import deletes tombstones of contacts that were deleted more than 62 days ago', async () => {
	await database.sql`insert into company_contacts (bitrix_id) values (900), (901)`;
	await database.sql`delete from company_contacts`;
	await database.sql`update company_contacts_changes set deleted_at = now() - interval '63 days' where bitrix_id = 900`;
	expect(await run(await file('list.csv', csv))).toMatchObject({ code: 0, stderr: '' });
	const left =
		await database.sql`select bitrix_id::int as id from company_contacts_changes where bitrix_id in (900, 901)`;
	expect([...left]).toEqual([{ id: 901 }]);
});

describe('--country', () => {
	const path = () => file('list.csv', 'bitrix_id,phone\n1,030 901820\n');

	test('reads national numbers as numbers of this country, in upper or lower case', async () => {
		for (const country of ['DE', 'de']) {
			expect(await run(await path(), '--country', country)).toMatchObject({ code: 0 });
			const rows = await database.sql`select phone from company_contacts`;
			expect(rows).toEqual([{ phone: '+4930901820' }]);
			await database.sql`truncate company_contacts`;
		}
	});

	test.each(['XX', 'Germany', '49', ''])('that is invalid is wrong usage: %j', async (country) => {
		const expected = '--country takes an ISO country code';
		await expectWrongUsage(database.url, ['import', await path(), '--country', country], expected);
		expect(await names()).toEqual([]);
	});
});

test('without a database an import fails with one line, and a dry run succeeds', async () => {
	const path = await file('list.csv', csv);
	const environment = { LOCAL_DATA_DIR: await temporaryFolder() };
	expectOneLine(await contacts(undefined, ['import', path], { environment }), 1, 'There is no database');
	expect(await contacts(undefined, ['import', path, '--dry-run'], { environment })).toEqual({
		code: 0,
		stdout: '2 records: 2 good, 0 refused; nothing was written.\n',
		stderr: '',
	});
});
