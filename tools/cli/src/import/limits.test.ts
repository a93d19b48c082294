import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

const built = (module: string) => JSON.stringify(new URL(`../../dist/import/${module}.js`, import.meta.url).href);

/** Imports generated pieces in a process with a small heap, and reports what it used. */
const program = (reader: string, pieces: string) => `
	import { contactColumns, importContacts } from ${built('import-contacts')};
	import { readCsv } from ${built('read-csv')};
	import { readNdjson } from ${built('records')};

	const megabytes = (text, count) => Array(count).fill(Buffer.alloc(1_048_576, text));
	function* times(count, piece) {
		for (let index = 1; index <= count; index++) yield piece(index);
	}
	async function* chunks() {
		for (const piece of ${pieces}) yield Buffer.isBuffer(piece) ? piece : Buffer.from(piece);
	}
	// Replaces the database client, which would hold a batch as one parameter.
	const sql = Object.assign(async () => [{ created: 0, changed: 0 }], { unsafe: () => undefined });
	const { accepted, failure } = await importContacts(sql, ${reader}(chunks(), contactColumns));
	process.stdout.write(JSON.stringify({ accepted, failure: failure?.message, maxRss: process.resourceUsage().maxRSS * 1024 }));`;

async function run(reader: string, pieces: string) {
	const args = ['--max-old-space-size=64', '--input-type=module', '--eval', program(reader, pieces)];
	const child = spawn(process.execPath, args, { timeout: 60_000, killSignal: 'SIGKILL' });
	const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
	expect([code, output]).toEqual([0, expect.stringMatching(/^\{/)]);
	const result = JSON.parse(output) as { failure?: string; accepted: number; maxRss: number };
	return { ...result, refusals: errors.split('\n').slice(0, -1) };
}

const tooLong = 'longer than 1048576 bytes';

test.each([
	[
		'NDJSON with a string of 100 MB',
		'readNdjson',
		`['{"bitrix_id":1}\\n{"bitrix_id":2,"name":"', ...megabytes('x', 100), '"}\\n{"bitrix_id":3}\\n']`,
		{ refusals: [`line 2: ${tooLong}`], accepted: 2 },
	],
	['20 MB of opening brackets', 'readNdjson', `megabytes('[', 20)`, { refusals: [`line 1: ${tooLong}`], accepted: 0 }],
	[
		'NDJSON with lines of many levels',
		'readNdjson',
		`['{"bitrix_id":1}\\n', ...times(20, () => '{"a":'.repeat(150_000) + '1' + '}'.repeat(150_000) + '\\n')]`,
		{
			refusals: Array.from({ length: 20 }, (_, index) => `line ${index + 2}: a field that is not known`),
			accepted: 1,
		},
	],
	[
		'NDJSON with long lines',
		'readNdjson',
		`times(100, (index) => '{"bitrix_id":' + index + ',' + ' '.repeat(1_000_000) + '"name":"x"}\\n')`,
		{ refusals: [], accepted: 100 },
	],
	[
		'CSV with a header of many columns',
		'readCsv',
		`['bitrix_id' + ',a'.repeat(100_000) + '\\n1\\n']`,
		{
			refusals: [],
			accepted: 0,
			failure: expect.stringMatching(/^The line of column names can't be read: longer than 65536 bytes\.$/),
		},
	],
	[
		'CSV with rows of many columns',
		'readCsv',
		`['bitrix_id\\n1\\n', ...times(5, () => ','.repeat(1_000_000) + '\\n')]`,
		{
			refusals: Array.from({ length: 5 }, (_, index) => `line ${index + 3}: not as many columns as the head`),
			accepted: 1,
		},
	],
	[
		'CSV with a quoted cell of many lines',
		'readCsv',
		`['bitrix_id,name\\n1,"', ...megabytes('\\n', 2), '2,b\\n']`,
		{ refusals: [], accepted: 0, failure: expect.stringContaining('from line 2 on') },
	],
	[
		'CSV with a quote that nothing closes for 100 MB',
		'readCsv',
		`['bitrix_id,name\\n1,a\\n2,"b', ...megabytes('x\\n', 100)]`,
		{ refusals: [], accepted: 1, failure: expect.stringContaining('from line 3 on') },
	],
])('%s is read in little memory', async (_, reader, pieces, expected) => {
	const { maxRss, ...outcome } = await run(reader, pieces);
	expect(outcome).toEqual(expected);
	// A process that reads a small file needs some 80 MB.
	expect(maxRss).toBeLessThan(220_000_000);
});
