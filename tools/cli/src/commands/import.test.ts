import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import postgres from 'postgres';
import { beforeEach, describe, expect, onTestFinished } from 'vitest';
import { contacts, environmentOf, expectOneLine, fileWith, main } from '../testing/command.js';
import { type GeneratedContact, generateContacts, toCsv } from '../testing/generated-contacts.js';
import { holdInserts } from '../testing/own-database.js';

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
const badPhone = 'phone: a number needs a leading plus and its country code';

describe('the format', () => {
	test.each([
		['list.CSV', csv, []],
		['a name with spaces.2026.jsonl', ndjson, []],
		['list.txt', csv, ['--format', 'csv']],
		['list.csv', ndjson, ['--format', 'ndjson']],
	])('follows from the name of the file, or from --format: %s', async (name, content, args) => {
		expect(await run(await fileWith(content, name), ...args)).toEqual({
			code: 0,
			stdout: '2 records: 2 good, 0 refused; 2 contacts new, 0 changed.\n',
			stderr: '',
		});
		expect(await names()).toEqual(['a', 'b']);
	});
});

test.each([
	['list.csv', '', 'The file is empty'],
	['list.csv', 'bitrix_id,name\n\n', 'The file has no records: nothing was imported.'],
	['list.ndjson', '\n\n', 'The file has no records: nothing was imported.'],
	['list.csv', 'id,title\n1,a\n', 'it has others: title'],
	['list.csv', 'sep=;\nbitrix_id;name\n1;a\n', 'which only Excel reads'],
	['list.csv', 'bitrix_id\tname\n1\ta\n', 'separated by tabs'],
	['list.csv', 'bitrix_id,name\r1,a\r2,b\r', 'CR alone'],
	['list.csv', Buffer.from('\uFEFFbitrix_id\tname\n', 'utf16le'), 'UTF-16'],
	['list.csv', gzipSync(csv), 'compressed with gzip'],
	['list.ndjson', gzipSync(ndjson), 'compressed with gzip'],
	['list.csv', Buffer.from('504b030414000600', 'hex'), 'an Excel workbook'],
])('a file without records or columns fails with one line: %s %j', async (name, content, message) => {
	const path = await fileWith(content, name);
	for (const args of [[], ['--json']]) expectOneLine(await run(path, ...args), 1, message);
	expectOneLine(await run(`${path}.csv`), 1, `There is no file ${path}.csv.`);
});

test.each(['csv', 'ndjson'])(
	'10,000 good records are stored exactly as in %s, and a second import writes nothing',
	async (format) => {
		const generated = generateContacts(10_000);
		const content =
			format === 'csv' ? toCsv(generated) : generated.map((contact) => JSON.stringify(contact)).join('\n');
		const summary = { records: 10_000, accepted: 10_000, refused: 0 };
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

test('an import writes only changed contacts: id and created_at stay, and an id in the file is ignored', async () => {
	await load('id,bitrix_id,name,phone\n777,5,a,+79001234567\nnonsense,6,b,\n');
	const before = await rows();
	expect(await load('id,bitrix_id,name,phone\n1,5,New,\n2,6,b,\n3,7,c,\n')).toMatchObject({ created: 1, changed: 1 });
	const [first, second, ...others] = await rows();
	const { id, created_at } = before[0] ?? {};
	expect(first).toMatchObject({ id, bitrix_id: '5', created_at, name: 'New', phone: null });
	expect([second, others.length]).toEqual([before[1], 1]);
});

test.each([1, 499, 500, 1200])('of two records of a contact the later one wins, %d records apart', async (apart) => {
	const between = generateContacts(apart).slice(1);
	const lines = ['{"bitrix_id":5,"name":"earlier","phone":"+79001234568"}', '{"bitrix_id":5,"name":"later"}'];
	const input = [lines[0], ...between.map((contact) => JSON.stringify(contact)), lines[1]].join('\n');
	expect(await load(input, 'ndjson')).toMatchObject({ records: apart + 1, refused: 0 });
	expect((await stored())[0]).toMatchObject({ bitrix_id: '5', name: 'later', phone: '+79001234568' });
	expect(await rows()).toHaveLength(apart);
});

describe('what a record lacks keeps what is stored, and what is empty clears it', () => {
	const full = generateContacts(1)[0] as GeneratedContact;
	const id = full.bitrix_id;
	const before = { ...full, phone: '+79001234567', company_ids: '7,1', name: 'Ann', trouble_contact: 'true' };

	beforeEach(async () => {
		await load(toCsv([before]));
	});

	test('in CSV, where the first line names the columns', async () => {
		expect(await load(`bitrix_id,name\n${id},Anna\n2,Bob\n`)).toMatchObject({ created: 1, changed: 1 });
		expect(await stored()).toMatchObject([
			{ bitrix_id: '2', name: 'Bob', phone: null, company_ids: null, trouble_contact: null },
			{ ...before, name: 'Anna' },
		]);
		await load(`trouble_contact,bitrix_id,phone\n,${id},\n`);
		expect((await stored())[1]).toEqual({ ...before, name: 'Anna', phone: null, trouble_contact: null });
	});

	test('in each record of NDJSON', async () => {
		const records = [{ bitrix_id: id, name: null, trouble_contact: false }, { bitrix_id: id }];
		const input = records.map((record) => JSON.stringify(record)).join('\n');
		expect(await load(input, 'ndjson')).toMatchObject({ accepted: 2, created: 0, changed: 1 });
		expect(await stored()).toEqual([{ ...before, name: null, trouble_contact: null }]);
	});

	test('also where somebody else writes it at the same moment', async () => {
		const other = postgres(database.url, { max: 1, fetch_types: false });
		onTestFinished(() => other.end());
		await other`begin`;
		await other`update company_contacts set name = 'Other'`;
		const imported = load(`bitrix_id,phone\n${id},+442079460101\n`);
		const waiting = () => database.sql`
			select from pg_locks where not granted and relation = 'company_contacts'::regclass`;
		await expect.poll(waiting).toHaveLength(1);
		await other`commit`;
		expect(await imported).toMatchObject({ changed: 1 });
		expect(await stored()).toEqual([{ ...before, name: 'Other', phone: '+442079460101' }]);
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
			stdout: '6 records: 3 good, 3 refused; 2 contacts new, 0 changed.\n',
			stderr: `line 3: ${badPhone}\nline 6: ${notId}\nline 7: ${notCompanies}\nerror: Refused records: 3. Correct them and import the file again.\n`,
		});
		expect(await stored()).toMatchObject([
			{ bitrix_id: '1', phone: null, company_ids: '9', name: 'the same contact again' },
			{ bitrix_id: '3', phone: null, company_ids: null, name: 'quoted, "x" of two lines' },
		]);
	});

	test('NDJSON of thousands, in whatever batch', async () => {
		const generated = generateContacts(2000);
		const lines = generated.map((contact) => JSON.stringify(contact));
		// Only rounding makes it an integer.
		lines.splice(700, 1, '{"bitrix_id":7.00000000000000000001}');
		lines.splice(1300, 1, '{"bitrix_id":');
		const outcome = await pipe(lines.join('\n'), '--format', 'ndjson', '--json');
		expect(outcome.stderr.match(/^line .*$/gm)).toEqual([
			`line 701: ${notId}`,
			'line 1301: not a JSON object in UTF-8',
		]);
		const counts = { records: 2000, accepted: 1998, refused: 2, created: 1998, changed: 0 };
		expect([outcome.code, JSON.parse(outcome.stdout)]).toEqual([1, counts]);
		const good = generated.filter((_, index) => index !== 700 && index !== 1300);
		expect(await names()).toEqual(good.map(({ name }) => name));
	});
});

test('a quote that is not closed ends the reading: what was good before is stored and counted, and the audit log says so', async () => {
	const generated = generateContacts(1700);
	const good = `${toCsv(generated)}0,,,,,,\n`;
	const outcome = await run(await fileWith(`${good}9,"b,,,,,\n8,c,,,,,\n`, 'broken.csv'), '--json');
	const counts = { records: 1701, accepted: 1700, refused: 1, created: 1700, changed: 0 };
	expect([outcome.code, JSON.parse(outcome.stdout)]).toEqual([1, { ...counts, broken_off: true }]);
	expect(outcome.stderr).toContain(`error: The file can't be read from line ${good.split('\n').length} on: a quote`);
	expect(await names()).toEqual(generated.map(({ name }) => name));
	const log =
		await database.sql`select action, details from audit_log where details->>'file' = 'broken.csv' order by id`;
	expect([...log]).toEqual([
		{ action: 'contacts import started', details: { file: 'broken.csv' } },
		{ action: 'contacts imported', details: { file: 'broken.csv', ...counts, broken_off: true } },
	]);
});

test.each([
	['SIGKILL', 'SIGKILL', 500],
	['SIGINT', 130, 1000],
	['SIGTERM', 143, 1000],
] as const)(
	'an import that gets %s in the middle has saved whole batches, and can be repeated',
	async (signal, exit, count) => {
		const { sql } = database;
		const name = `${signal}.csv`;
		const path = await fileWith(toCsv(generateContacts(1700)), name);
		const hold = await holdInserts(database, 'company_contacts', 'exists (select from company_contacts)');
		const command = startProcess(process.execPath, [main, 'import', path], { env: environmentOf(database.url) });
		await hold.waits();
		command.kill(signal);
		if (signal === 'SIGKILL') await hold.terminate();
		await hold.release();
		expect(await command.exit).toBe(exit);

		expect(await names()).toHaveLength(count);
		const started = { action: 'contacts import started', details: { file: name } };
		const counts = { records: count, accepted: count, refused: 0, created: count, changed: 0, broken_off: true };
		const ended = { action: 'contacts imported', details: { file: name, ...counts } };
		const log = await sql`select action, details from audit_log where details->>'file' = ${name} order by id`;
		expect([...log]).toEqual(signal === 'SIGKILL' ? [started] : [started, ended]);
		if (signal !== 'SIGKILL') {
			expect(command.stdout()).toBe('1000 records: 1000 good, 0 refused; 1000 contacts new, 0 changed.\n');
			expect(command.stderr()).toBe(
				'error: Interrupted: the first 1000 good records are saved. Import the file again for the others.\n',
			);
		}
		expect(await run(path)).toMatchObject({
			code: 0,
			stdout: expect.stringContaining(`${1700 - count} contacts new, 0 changed`),
		});
	},
);

test('Ctrl-C before the file is read ends an import with one line, and the audit log has its end', async () => {
	const lock = await database.sql.reserve();
	await lock`begin`;
	await lock`lock table audit_log in exclusive mode`;
	const path = await fileWith(csv, 'early.csv');
	const command = startProcess(process.execPath, [main, 'import', path], { env: environmentOf(database.url) });
	const waiting = () => database.sql`
		select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
	await expect.poll(waiting, { timeout: 20_000 }).toHaveLength(1);
	command.kill('SIGINT');
	await lock`commit`;
	lock.release();
	expect(await command.exit).toBe(130);
	expect(command.output()).toBe('error: Interrupted: nothing was done.\n');
	const log = await database.sql`select action from audit_log where details->>'file' = 'early.csv' order by id`;
	expect(log.map(({ action }) => action)).toEqual(['contacts import started', 'contacts imported']);
});

test('Ctrl-C ends an import that waits for its input, and nothing is saved', async () => {
	const command = spawn(process.execPath, [main, 'import', '-', '--format', 'csv'], {
		env: environmentOf(database.url),
	});
	const outcome = Promise.all([text(command.stderr), once(command, 'close')]);
	command.stdin.write('bitrix_id\n1\n');
	const rows = () => database.sql`select from audit_log where details->>'file' = '-'`;
	const before = (await rows()).length;
	await expect.poll(async () => (await rows()).length - before, { timeout: 20_000 }).toBe(1);
	command.kill('SIGINT');
	const [stderr, [code]] = await outcome;
	expect([code, stderr]).toEqual([130, 'error: Interrupted: nothing was done.\n']);
	expect(await rows()).toHaveLength(before + 2);
	expect(await names()).toEqual([]);
});

test('an import whose connection is lost between two batches ends, as does its work: nothing is saved over a new connection', async () => {
	const { sql } = database;
	const records = generateContacts(1000).map((contact) => JSON.stringify(contact));
	const sessions = () => sql<{ pid: number }[]>`
		select pid from pg_stat_activity
		where datname = current_database() and application_name = 'contacts' and state = 'idle'`;
	async function* input() {
		yield `${records.slice(0, 500).join('\n')}\n`;
		await expect.poll(names).toHaveLength(500);
		await expect.poll(sessions).toHaveLength(1);
		for (const { pid } of await sessions()) await sql`select pg_terminate_backend(${pid})`;
		await expect.poll(sessions).toHaveLength(0);
		yield records.slice(500).join('\n');
	}
	expect(await contacts(database.url, ['import', '-', '--format', 'ndjson'], { input: input() })).toEqual({
		code: 1,
		stdout: '500 records: 500 good, 0 refused; 500 contacts new, 0 changed.\n',
		stderr: 'error: The connection to the database was lost. Try again.\n',
	});
	expect(await names()).toHaveLength(500);
	const [last] = await sql`select action, details from audit_log order by id desc limit 1`;
	expect(last).toMatchObject({ action: 'contacts imported', details: { accepted: 500, broken_off: true } });
});

test.each([
	['a file that does not exist', async () => `${await fileWith('')}.csv`, /^error: There is no file [^\n]+\n$/],
	['a folder', async () => temporaryFolder(), /^error: [^\n]+ is a folder, not a file\.\n$/],
])('%s is refused before the audit log has a start', async (_, path, line) => {
	const rows = () => database.sql`select from audit_log`;
	const before = (await rows()).length;
	for (const command of [['import'], ['subscription', 'import']]) {
		const outcome = await contacts(database.url, [...command, await path(), '--format', 'csv']);
		expect(outcome).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(line) });
	}
	expect(await rows()).toHaveLength(before);
});

test('an import ends with one line when the database refuses a contact, and what was saved before stays', async () => {
	await database.sql`alter table company_contacts add constraint canary check (bitrix_id <> 1001800)`;
	onTestFinished(async () => void (await database.sql`alter table company_contacts drop constraint canary`));
	expect(await pipe(toCsv(generateContacts(1000)), '--format', 'csv')).toEqual({
		code: 1,
		stdout: '500 records: 500 good, 0 refused; 500 contacts new, 0 changed.\n',
		stderr: expect.stringMatching(/^error: [^\n]*canary[^\n]*\n$/),
	});
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

test('where a CRM is mirrored an import asks first, and needs --yes where there is no terminal', async () => {
	await database.sql`update crm_sync_state set configuration = '{"portal": "example.bitrix24.com"}'`;
	onTestFinished(async () => void (await database.sql`update crm_sync_state set configuration = null`));
	const path = await fileWith(csv, 'mirrored.csv');
	const ask = (input: string) => contacts(database.url, ['import', path], { input, isTTY: true });
	expectOneLine(await run(path), 2, /^error: A CRM is mirrored into this database.* Say --yes to do it\.$/m);
	expect(await ask('n\n')).toMatchObject({ code: 1, stderr: expect.stringMatching(/Continue\? .*Nothing was done/) });
	expect(await names()).toEqual([]);
	expect(await database.sql`select from audit_log where details->>'file' = 'mirrored.csv'`).toHaveLength(0);
	expect(await run(path, '--yes')).toMatchObject({ code: 0, stderr: '' });
	expect(await names()).toEqual(['a', 'b']);
	expect(await ask('y\n')).toMatchObject({ code: 0, stdout: expect.stringContaining('2 records: 2 good') });
});
