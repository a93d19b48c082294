import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

const built = (module: string) => JSON.stringify(new URL(`../../dist/import/${module}.js`, import.meta.url).href);

/** Imports generated pieces in a process with a small heap, and reports what it used. */
const program = (reader: string, pieces: string) => `
	import { importRecords } from ${built('import-file')};
	import { readCsv } from ${built('read-csv')};
	import { readJsonArray, readNdjson } from ${built('read-json')};

	const megabytes = (text, count) => Array(count).fill(Buffer.alloc(1_048_576, text));
	function* times(count, piece) {
		for (let index = 1; index <= count; index++) yield piece(index);
	}
	async function* chunks() {
		for (const piece of ${pieces}) yield Buffer.isBuffer(piece) ? piece : Buffer.from(piece);
	}
	// Replaces the database client, which would hold a batch as one parameter.
	const sql = Object.assign(async () => [{ created: 0, changed: 0 }], { unsafe: () => undefined });
	const refusals = [];
	let failure;
	let summary;
	try {
		summary = await importRecords(sql, ${reader}(chunks()), {
			dryRun: false,
			onRecordError: (line, reason) => refusals.push(line + ': ' + reason),
			onRecord: () => undefined,
		});
	} catch (error) {
		failure = error.message;
	}
	process.stdout.write(JSON.stringify({ refusals, failure, accepted: summary?.accepted, maxRss: process.resourceUsage().maxRSS * 1024 }));`;

async function run(reader: string, pieces: string) {
	const args = ['--max-old-space-size=64', '--input-type=module', '--eval', program(reader, pieces)];
	const child = spawn(process.execPath, args, { timeout: 60_000, killSignal: 'SIGKILL' });
	const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
	expect([code, errors]).toEqual([0, '']);
	return JSON.parse(output) as { refusals: string[]; failure?: string; accepted?: number; maxRss: number };
}

const tooLong = 'longer than 1048576 bytes';
const tooDeep = 'nested deeper than 32 levels';

test.each([
	[
		'a JSON array with a string of 100 MB',
		'readJsonArray',
		`['[{"bitrix_id":1},{"bitrix_id":2,"name":"', ...megabytes('x', 100), '"},{"bitrix_id":3}]']`,
		{ refusals: [`2: ${tooLong}`], accepted: 2 },
	],
	[
		'a JSON array with a number of 100 MB',
		'readJsonArray',
		`['[{"bitrix_id":1},', ...megabytes('7', 100), ',{"bitrix_id":3}]']`,
		{ refusals: [`2: ${tooLong}`], accepted: 2 },
	],
	[
		'20 MB of opening brackets',
		'readJsonArray',
		`[...megabytes('[', 20)]`,
		{ refusals: [], failure: expect.stringMatching(/breaks off after element 0\.$/) },
	],
	[
		'a JSON array with an element of many levels',
		'readJsonArray',
		`['[{"bitrix_id":1},{"bitrix_id":2,"name":' + '['.repeat(400_000) + ']'.repeat(400_000), '},{"bitrix_id":3}]']`,
		{ refusals: [`2: ${tooDeep}`], accepted: 2 },
	],
	[
		'NDJSON with lines of many levels',
		'readNdjson',
		`['{"bitrix_id":1}\\n', ...times(20, () => '{"a":'.repeat(150_000) + '1' + '}'.repeat(150_000) + '\\n')]`,
		{ refusals: Array.from({ length: 20 }, (_, index) => `${index + 2}: ${tooDeep}`), accepted: 1 },
	],
	[
		'NDJSON with long lines',
		'readNdjson',
		`times(100, (index) => JSON.stringify({ bitrix_id: index, name: 'x'.repeat(1_000_000) }) + '\\n')`,
		{ refusals: [], accepted: 100 },
	],
	[
		'CSV with a header of many columns',
		'readCsv',
		`['bitrix_id' + ',a'.repeat(100_000) + '\\n1\\n']`,
		{
			refusals: [],
			failure: expect.stringMatching(/^The line of column names can't be read: longer than 65536 bytes\.$/),
		},
	],
	[
		'CSV with rows of many columns',
		'readCsv',
		`['bitrix_id\\n1\\n', ...times(5, () => ','.repeat(1_000_000) + '\\n')]`,
		{ refusals: Array.from({ length: 5 }, (_, index) => `${index + 3}: not as many columns as the head`), accepted: 1 },
	],
	[
		'CSV with a quoted cell of many lines',
		'readCsv',
		`['bitrix_id,name\\n1,"', ...megabytes('\\n', 2), '2,b\\n']`,
		{ refusals: ['2: a quote is opened and not closed'], accepted: 1 },
	],
])('%s is read in little memory', async (_, reader, pieces, expected) => {
	const { maxRss, ...outcome } = await run(reader, pieces);
	expect(outcome).toEqual(expected);
	// A process that reads a small file needs some 80 MB.
	expect(maxRss).toBeLessThan(220_000_000);
});
