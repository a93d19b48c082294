import { get, type IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { connectSingle } from '@contacts/common/database/connect.js';
import { type Scenario, startService } from '../bench.js';
import { copiesOfTheList } from '../data.sql.js';
import { credentials } from '../database.js';
import { compare } from '../report.js';
import { interleave, type Subject } from '../rounds.js';
import { comparePeaks } from './memory.js';

const name = 'list of 1,000,000';
const contacts = 1_000_000;
const copies = { elements: 'COPY of the same query', columns: 'COPY of the bare columns' } as const;

/** One long transfer, as its reader saw it. */
interface Transfer {
	bytes: number;
	/** Milliseconds from the request until the first byte, and until the end. */
	firstByteMs: number;
	milliseconds: number;
	/** The first and the last characters. */
	head: string;
	tail: string;
}

/** The whole list, far larger than the list cache, for one client at a time. */
export const million: Scenario = {
	name,
	long: true,
	async run(bench) {
		const { lifetime, database, settings } = bench;
		bench.progress(`${name}, making the contacts`);
		await database.haveCompanyContacts(contacts);
		const service = await startService(bench, 'company-contacts', name);
		const sql = connectSingle(database.urlFor('company-contacts'));
		lifetime.own(() => sql.end({ timeout: 0 }));
		// The service's connections are also open before a request comes.
		await sql`select 1`;

		const copy = (of: keyof typeof copies): Subject<Transfer> => ({
			name: copies[of],
			measure: () => readTransfer(() => sql.unsafe(copiesOfTheList[of]).readable()),
		});
		const list: Subject<Transfer> = {
			name: 'ours',
			measure: () => readTransfer(() => download(`${service.url}/api/company_contacts.list?${credentials}`)),
		};
		const measured = await interleave(bench, name, Math.min(3, settings.rounds), {
			elements: copy('elements'),
			columns: copy('columns'),
			ours: list,
		});
		for (const { head, tail } of measured.ours) {
			const isWhole = head.startsWith(`{"count":${contacts},`) && tail.endsWith(']}');
			if (!isWhole) throw new Error('our response is not the whole list');
		}

		const speed = (of: keyof typeof measured) =>
			measured[of].map(({ milliseconds }) => (contacts / milliseconds) * 1000);
		const firstByte = (of: keyof typeof measured) => measured[of].map(({ firstByteMs }) => firstByteMs);
		const bytes = `${measured.ours[0]?.bytes} bytes of JSON, ${measured.columns[0]?.bytes} of the bare columns`;
		const throughput = { scenario: name, figure: 'throughput', unit: '/s', ours: speed('ours') } as const;
		return [
			compare({
				...throughput,
				baseline: { name: copies.elements, values: speed('elements') },
				target: { of: 'ratio', atLeast: 0.5 },
				notes: ['contacts per second', bytes],
			}),
			compare({ ...throughput, baseline: { name: copies.columns, values: speed('columns') } }),
			compare({
				scenario: name,
				figure: 'first byte',
				unit: 'ms',
				ours: firstByte('ours'),
				baseline: { name: copies.elements, values: firstByte('elements') },
				target: { of: 'ours', atMost: 1000 },
			}),
			...comparePeaks(name, service, undefined, { of: 'ours', atMost: 250 }),
		];
	},
};

/** Reads a transfer to its end and discards it, except for its first and its last characters. */
async function readTransfer(start: () => Promise<Readable>): Promise<Transfer> {
	const begun = performance.now();
	const transfer = { bytes: 0, firstByteMs: 0, head: '', tail: '' };
	for await (const chunk of (await start()) as AsyncIterable<Buffer>) {
		if (transfer.bytes === 0) {
			transfer.firstByteMs = performance.now() - begun;
			transfer.head = chunk.toString('latin1', 0, 40);
		}
		transfer.bytes += chunk.length;
		transfer.tail = (transfer.tail + chunk.toString('latin1', Math.max(0, chunk.length - 2))).slice(-2);
	}
	return { ...transfer, milliseconds: performance.now() - begun };
}

/** @throws Error when its status isn't 200 */
function download(url: string): Promise<IncomingMessage> {
	return new Promise((resolve, reject) => {
		get(url, { agent: false }, (response) => {
			if (response.statusCode === 200) resolve(response);
			else reject(new Error(`our response has the status ${response.statusCode} in place of 200`));
		}).on('error', reject);
	});
}
