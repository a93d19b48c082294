import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

const built = (module: string) => JSON.stringify(new URL(`../../dist/import/${module}.js`, import.meta.url).href);

/**
 * Reads generated records to their end, and measures what is held after each eighth, with the garbage collected.
 */
const program = (reader: string, generator: string) => `
	import { contactColumns, importContacts } from ${built('import-contacts')};
	import { readCsv } from ${built('read-csv')};
	import { readNdjson } from ${built('records')};

	const count = Number(process.argv[1]);
	async function* pieces(header, record) {
		let piece = header;
		for (let index = 1; index <= count; index++) {
			piece += record(index);
			if (piece.length > 60_000) {
				yield Buffer.from(piece);
				piece = '';
			}
		}
		yield Buffer.from(piece);
	}
	const held = [];
	const measure = () => {
		globalThis.gc();
		const { heapUsed, arrayBuffers } = process.memoryUsage();
		held.push(heapUsed + arrayBuffers);
	};
	async function* measured(records) {
		let read = 0;
		for await (const record of records) {
			yield record;
			if (++read % (count / 8) === 0) measure();
		}
	}
	const summary = await importContacts(undefined, measured(${reader}(pieces(${generator}), contactColumns)));
	process.stdout.write(JSON.stringify({ summary, held }));`;

interface Result {
	summary: { records: number; refused: number };
	held: number[];
}

async function run(source: string, count: number): Promise<Result> {
	const child = spawn(process.execPath, ['--expose-gc', '--input-type=module', '--eval', source, String(count)], {
		timeout: 100_000,
		killSignal: 'SIGKILL',
	});
	const [output, , [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
	expect(code).toBe(0);
	return JSON.parse(output);
}

test.each([
	[
		'CSV',
		150_000,
		program(
			'readCsv',
			`'bitrix_id,name,company_ids\\n', (index) => index + ',"name, of ' + index + '","1,' + index + '"\\n'`,
		),
	],
	[
		'CSV of which every second record is wrong',
		120_000,
		program('readCsv', `'bitrix_id,name\\n', (index) => index + (index % 2 ? ',name\\n' : ',name "of"\\n')`),
	],
	[
		'NDJSON',
		150_000,
		program('readNdjson', `'', (index) => '{"bitrix_id":' + index + ',"name":"name of ' + index + '"}\\n'`),
	],
])(
	'%s of %d records is read in constant memory',
	async (format, count, source) => {
		const { summary, held } = await run(source, count);
		expect(summary.records).toBe(count);
		expect(summary.refused).toBe(format.includes('wrong') ? count / 2 : 0);
		expect(held).toHaveLength(8);
		// Memory in use varies. Retained memory would exceed this limit at 25 bytes per record.
		expect(Math.min(...held.slice(4)) - Math.min(...held.slice(0, 4))).toBeLessThan(1_500_000);
	},
	120_000,
);

test.each(['readCsv', 'readNdjson'])('a far too long line is not kept in memory (%s)', async (reader) => {
	const { held } = await run(
		`
		import { contactColumns } from ${built('import-contacts')};
		import { readCsv } from ${built('read-csv')};
		import { readNdjson } from ${built('records')};

		const held = [];
		async function* endless() {
			yield Buffer.from('bitrix_id,name\\n1,');
			for (let piece = 0; piece < Number(process.argv[1]); piece++) {
				yield Buffer.alloc(1_048_576, 'x');
				globalThis.gc();
				held.push(process.memoryUsage().arrayBuffers);
			}
		}
		try {
			for await (const record of ${reader}(endless(), contactColumns)) void record;
		} catch (error) {
			if (!error.message.includes('longer than')) throw error;
		}
		process.stdout.write(JSON.stringify({ held }));`,
		32,
	);
	expect(held).toHaveLength(32);
	expect(Math.max(...held)).toBeLessThan(6_000_000);
});
