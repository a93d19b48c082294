import { type Scenario, startService } from '../bench.js';
import { runChild } from '../child.js';
import { credentials } from '../database.js';
import type { Transfer } from '../load/transfer.js';
import type { CopyTransfer } from '../references/copy-reader.js';
import { compare } from '../report.js';
import { interleave } from '../rounds.js';
import { comparePeaks } from './memory.js';

const name = 'list of 1,000,000';
const contacts = 1_000_000;
const references = { elements: 'COPY of the same query', columns: 'COPY of the bare columns' } as const;

/** The whole list, far larger than the list cache, for one client at a time. */
export const million: Scenario = {
	name,
	async run(bench) {
		const { lifetime, database, settings } = bench;
		bench.progress(`${name}, making the contacts`);
		await database.haveCompanyContacts(contacts);
		const service = await startService(bench, 'company-contacts', name);
		const url = `${service.url}/api/company_contacts.list?${credentials}`;

		const copy = (of: keyof typeof references) => ({
			name: references[of],
			measure: () =>
				runChild(
					lifetime,
					'references/copy-reader',
					{ databaseUrl: database.urlFor('company-contacts'), of },
					(message: CopyTransfer | { failure: string }) => {
						if ('failure' in message) throw new Error(message.failure);
						return { ...message, streamed: true as const };
					},
				),
		});
		const measured = await interleave<Transfer | (CopyTransfer & { streamed: true }), keyof typeof references | 'ours'>(
			{
				elements: copy('elements'),
				columns: copy('columns'),
				ours: {
					name: 'ours',
					measure: () =>
						runChild(lifetime, 'load/downloader', { url }, (message: Transfer | { failure: string }) => {
							if ('failure' in message) throw new Error(message.failure);
							checkWhole(message);
							return message;
						}),
				},
			},
			Math.min(3, settings.rounds),
			(text) => bench.progress(`${name}, ${text}`),
		);

		const values = (of: keyof typeof measured, field: 'milliseconds' | 'firstByte') =>
			measured[of].map((transfer) => transfer[field]);
		const speed = (of: keyof typeof measured) => values(of, 'milliseconds').map((time) => (contacts / time) * 1000);
		const bytes = `${measured.ours[0]?.bytes} bytes of JSON, ${measured.columns[0]?.bytes} of the bare columns`;
		const comparisons = [
			compare({
				scenario: name,
				figure: 'throughput',
				unit: '/s',
				ours: speed('ours'),
				reference: { name: references.elements, values: speed('elements') },
				target: { of: 'ratio', atLeast: 0.5 },
				notes: ['contacts per second', bytes, measured.ours[0]?.streamed ? 'streamed' : 'not streamed'],
			}),
			compare({
				scenario: name,
				figure: 'throughput',
				unit: '/s',
				ours: speed('ours'),
				reference: { name: references.columns, values: speed('columns') },
			}),
			compare({
				scenario: name,
				figure: 'first byte',
				unit: 'ms',
				ours: values('ours', 'firstByte'),
				reference: { name: references.elements, values: values('elements', 'firstByte') },
				target: { of: 'ours', atMost: 1000 },
			}),
			...comparePeaks(name, service, undefined, { of: 'ours', atMost: 250 }),
		];
		return comparisons;
	},
};

/** @throws Error when it isn't the whole list */
function checkWhole({ status, head, tail }: Transfer): void {
	if (status !== 200) throw new Error(`our answer has the status ${status} in place of 200`);
	if (!head.startsWith(`{"count":${contacts},`) || tail !== ']}') throw new Error('our answer is not the whole list');
}
