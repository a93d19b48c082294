import { isDeepStrictEqual } from 'node:util';
import { type CompanyContact, type CopyStore, createCompanyContactsClient } from '@contacts/client';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { type Breach, type Judge, repeat } from './judge.js';

/** A copy in memory, with the number of times that it was begun. */
class Copy implements CopyStore {
	contacts = new Map<number, CompanyContact>();
	cursor: string | undefined;
	begun = 0;

	readCursor(): string | undefined {
		return this.cursor;
	}

	apply({ changes, cursor, reset }: Parameters<CopyStore['apply']>[0]): void {
		if (reset) {
			this.begun++;
			this.contacts.clear();
		}
		for (const change of changes) {
			if (change.deleted) this.contacts.delete(change.contact.id);
			else this.contacts.set(change.contact.id, change.contact);
		}
		this.cursor = cursor;
	}

	get list(): CompanyContact[] {
		return [...this.contacts.values()].sort((one, other) => one.id - other.id);
	}
}

/** Keeps a copy of all contacts through the gateway. At rest it equals the list of both replicas. */
export const copy: Judge = {
	name: 'copy',
	promise: 6,
	start(place) {
		const judged: number[] = [];
		const breaches: Breach[] = [];
		const credentials = { project: 'copy', apiKey: 'copy-key' };
		const client = createCompanyContactsClient({ baseUrl: place.gateway, ...credentials });
		const kept = new Copy();
		const keep = () =>
			client.keepCopy(kept).then(
				() => void judged.push(performance.now()),
				() => undefined,
			);
		const loop = repeat(keep, 500);
		return {
			judged,
			seen: [],
			breaches,
			async stop() {
				await loop.stop();
				for (const baseUrl of place.company) {
					const replica = createCompanyContactsClient({ baseUrl, ...credentials });
					const isEqual = async () => {
						await keep();
						return isDeepStrictEqual(kept.list, (await replica.list()).contacts);
					};
					await waitUntil(isEqual, { timeoutMs: 10_000, intervalMs: 500 }).catch(() =>
						breaches.push({
							what: `the copy does not equal the list of ${baseUrl}`,
							begun: 0,
							ended: performance.now(),
						}),
					);
				}
			},
		};
	},
};
