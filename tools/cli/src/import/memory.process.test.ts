import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

const built = (module: string) => JSON.stringify(new URL(`../../dist/import/${module}.js`, import.meta.url).href);

/** Imports generated pieces in a process with a small heap, and reports the result and what was held after each eighth. */
const program = (reader: string, pieces: string, count: number) => `
	import { contactColumns, saveContacts, toContact } from ${built('contacts')};
	import { checked } from ${built('parts')};
	import { readCsv } from ${built('csv')};
	import { readNdjson } from ${built('ndjson')};
	import { createOutput } from ${built('../terminal/output')};

	function* times(count, record) {
		for (let index = 1; index <= count; index++) yield record(index);
	}
	async function* chunks() {
		let text = '';
		for (const piece of ${pieces}) {
			if ((text += piece).length > 60_000) {
				yield Buffer.from(text);
				text = '';
			}
		}
		yield Buffer.from(text);
	}
	const held = [];
	async function* measured(records) {
		let read = 0;
		for await (const record of records) {
			yield record;
			if (++read % ${count / 8} !== 0) continue;
			globalThis.gc();
			const { heapUsed, arrayBuffers } = process.memoryUsage();
			held.push(heapUsed + arrayBuffers);
		}
	}
	// Replaces the database client, which would hold a batch as one parameter.
	const sql = Object.assign(async () => [{ created: 0, changed: 0 }], { unsafe: () => undefined });
	const records = measured(${reader}(chunks(), contactColumns));
	const counts = { records: 0, accepted: 0, refused: 0, created: 0, changed: 0 };
	const { signal } = new AbortController();
	const output = createOutput(process);
	const contacts = checked(records, { convert: toContact, counts, input: { shareRead: () => undefined }, output, signal });
	await saveContacts((work) => work(sql), contacts, counts);
	const { accepted, refused } = counts;
	process.stdout.write(JSON.stringify({ accepted, refused, held }));`;

async function run(reader: string, pieces: string, count: number) {
	const source = program(reader, pieces, count);
	const args = ['--max-old-space-size=64', '--expose-gc', '--input-type=module', '--eval', source];
	const child = spawn(process.execPath, args, { timeout: 110_000, killSignal: 'SIGKILL' });
	const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
	expect([code, output, errors.slice(-500)]).toEqual([0, expect.stringMatching(/^\{/), expect.anything()]);
	return JSON.parse(output) as Record<'accepted' | 'refused', unknown> & { held: number[] };
}

test.each([
	[
		'CSV',
		'readCsv',
		`['bitrix_id,name,company_ids\\n', ...times(150_000, (n) => n + ',"name, of ' + n + '","1,' + n + '"\\n')]`,
		0,
	],
	[
		'CSV of which every second record is wrong',
		'readCsv',
		`['bitrix_id,name\\n', ...times(150_000, (n) => n + (n % 2 ? ',name\\n' : '\\n'))]`,
		75_000,
	],
	['NDJSON', 'readNdjson', `times(150_000, (n) => '{"bitrix_id":' + n + ',"name":"name of ' + n + '"}\\n')`, 0],
])('150,000 records of %s are read in constant memory', async (_, reader, pieces, refused) => {
	const { held, ...outcome } = await run(reader, pieces, 150_000);
	expect(outcome).toEqual({ accepted: 150_000 - refused, refused });
	// Memory in use varies. Retained memory would exceed this limit at 25 bytes per record.
	expect(Math.min(...held.slice(4)) - Math.min(...held.slice(0, 4))).toBeLessThan(1_500_000);
});
