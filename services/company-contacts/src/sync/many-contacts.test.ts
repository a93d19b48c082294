import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { expectedRow, makeContact, readMirror, startSync } from './testing/portal.js';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');
function usedHeap(): number {
	collectGarbage();
	return process.memoryUsage().heapUsed;
}

test('25,000 contacts arrive exactly, in as few requests as paging allows, within the rate limit and constant memory', async () => {
	const sync = await startSync();
	onTestFinished(() => sync.close());
	for (let n = 1; n <= 25_000; n++) sync.standIn.add(makeContact(n));
	const heap: number[] = [];
	sync.standIn.onRequest(({ number }) => {
		if (number === 14 || number === 494) heap.push(usedHeap());
	});
	const outcome = await sync.synchroniser.pass();

	const mirror = await readMirror();
	const contacts = [...sync.standIn.contacts.keys()];
	expect(mirror).toEqual(contacts.map((id, index) => expectedRow(id, index + 1)));

	// The fields, the count, 500 full pages, the comparison of the first page, and the empty last page.
	expect(outcome).toMatchObject({ kind: 'full', seen: 25_000, created: 25_000, changed: 0, deleted: 0, requests: 504 });
	expect(sync.standIn.requests).toHaveLength(504);
	expect(sync.standIn.blockedRequests).toBe(0);
	// Of 24,000 contacts read between the two, memory keeps only the stand-in's notes of 480 requests.
	const [before = 0, after = 0] = heap;
	console.log(`480 pages left ${((after - before) / 1024).toFixed(0)} KiB in the heap`);
	expect(after - before).toBeLessThan(4 * 1_048_576);
}, 240_000);
