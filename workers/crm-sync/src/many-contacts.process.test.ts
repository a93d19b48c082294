import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from '@contacts/testing/test.js';
import { expect } from 'vitest';
import { expectedRow, makeContacts, readMirror, startSync } from './testing/harness.js';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');
function usedHeap(): number {
	collectGarbage();
	return process.memoryUsage().heapUsed;
}

/** More of them show what a large CRM costs: see docs/scale.md. A multiple of 50. */
const contacts = Number(process.env.CONTACTS ?? 25_000);

test(
	'many contacts arrive exactly, in as few requests as paging allows, within the rate limit and constant memory',
	async () => {
		const sync = await startSync({ contacts: makeContacts(contacts) });
		const heap: number[] = [];
		sync.standIn.onRequest(({ number }) => {
			if (number === 14 || number === 494) heap.push(usedHeap());
		});
		const [begun, cpu] = [sync.clock.now(), process.cpuUsage()];
		const outcome = await sync.synchroniser.run();
		const { user, system } = process.cpuUsage(cpu);
		const hours = ((sync.clock.now() - begun) / 3_600_000).toFixed(2);
		console.log(
			`${contacts} contacts: ${hours} hours by the CRM’s limits, ${Math.round((user + system) / 1e6)} s of CPU time`,
		);

		const mirror = await readMirror();
		const ids = [...sync.standIn.contacts.keys()];
		expect(mirror).toEqual(ids.map((id, index) => expectedRow(id, index + 1)));

		// The fields, the categories, the count, the full pages, the comparison of the first page, and the empty last page.
		const requests = contacts / 50 + 5;
		expect(outcome).toMatchObject({
			kind: 'full',
			seen: contacts,
			created: contacts,
			changed: 0,
			deleted: 0,
			requests,
		});
		expect(sync.standIn.requests).toHaveLength(requests);
		expect(sync.standIn.blockedRequests).toBe(0);
		// Of 24,000 contacts read between the two, memory keeps only the stand-in's notes of 480 requests.
		const [before = 0, after = 0] = heap;
		console.log(`480 pages left ${((after - before) / 1024).toFixed(0)} KiB in the heap`);
		expect(after - before).toBeLessThan(4 * 1_048_576);
	},
	contacts * 10,
);
