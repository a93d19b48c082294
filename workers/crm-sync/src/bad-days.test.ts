import type { Fault, StandInContact, StandInOptions, UserField } from '@contacts/testing/bitrix24/stand-in.js';
import { seededRandom } from '@contacts/testing/random.js';
import { test } from '@contacts/testing/test.js';
import { expect, onTestFailed } from 'vitest';
import {
	error,
	expectedRow,
	makeContact,
	readMirror,
	reasonField,
	type SyncHarness,
	startSync,
	storeEvents,
	troubleField,
} from './testing/harness.js';

/** Five pages. */
const contacts = 250;

/** The last of them ends a run. The synchroniser is then started again, as after a crash. */
const faults: Fault[] = [
	{ kind: 'html', status: 502 },
	{ kind: 'reset' },
	{ kind: 'cut-off' },
	{ kind: 'truncated-json' },
	error('INTERNAL_SERVER_ERROR'),
	error('QUERY_LIMIT_EXCEEDED'),
	error('OPERATION_TIME_LIMIT'),
	error('INVALID_CREDENTIALS'),
];

/** The reason as multiple options of a list, and not as a text. */
const listField: UserField = {
	name: reasonField,
	type: 'enumeration',
	multiple: true,
	items: [
		{ id: 79, value: 'Price' },
		{ id: 80, value: 'Time' },
	],
};
const optionsOf = (n: number) => (n % 5 ? [] : [80, 79]);
const labelsOf = (n: number) => (n % 5 ? null : 'Time; Price');

/** Runs until it is done, each time with a new synchroniser. */
async function untilDone(sync: SyncHarness, run: () => Promise<unknown>): Promise<void> {
	for (let runs = 0; runs < 100; runs++) {
		const isDone = await run().then(
			() => true,
			() => false,
		);
		if (isDone) return;
		const { blocked_until: until } = await sync.state();
		sync.clock.advance(Math.max(0, (until ?? 0) - sync.clock.now()));
		await sync.restart();
	}
	throw new Error('the run was never done');
}

// No documentation says whether crm.item.list returns all phones and companies.
test.each<NonNullable<StandInOptions['lists']>>([
	{},
	{ companyIds: 'absent' },
	{ companyIds: 'empty' },
	{ companyIds: 'first' },
	{ fm: 'absent' },
	{ fm: 'empty' },
	{ fm: 'first' },
	{ companyIds: 'sometimes', fm: 'sometimes' },
])('the mirror equals the CRM after each run, with faults, restarts and limits in it: lists with %j', async (lists) => {
	const sync = await startSync({
		fields: [{ name: troubleField, type: 'boolean' }, listField],
		lists,
		// Reading each contact takes twice the operating time that the CRM allows in ten minutes.
		operatingSecondsPerCall: { 'crm.item.get': 1000 / contacts },
	});
	const { standIn, clock } = sync;
	/** The n of each contact, by its ID. */
	const truth = new Map<number, number>();
	function fieldsOf(n: number): Partial<StandInContact> {
		const contact = makeContact(n);
		return { ...contact, uf: { ...contact.uf, [reasonField]: optionsOf(n) } };
	}
	const add = (n: number) => {
		const { id } = standIn.add(fieldsOf(n));
		truth.set(id, n);
		return id;
	};
	const change = (id: number, n: number, touch: boolean) => {
		standIn.update(id, fieldsOf(n), { touch });
		truth.set(id, n);
	};
	const remove = (id: number) => {
		standIn.remove(id);
		truth.delete(id);
	};
	const isEqual = async () => {
		const rows = [...truth].map(([id, n]) => ({ ...expectedRow(id, n), perplexity_reason: labelsOf(n) }));
		expect(await readMirror()).toEqual(rows.toSorted((a, b) => a.bitrix_id - b.bitrix_id));
	};
	const random = seededRandom();
	onTestFailed(() => console.info(`FAULTS_SEED=${random.seed} repeats it`));
	standIn.onRequest(() => {
		const [fault] = random.shuffled(faults);
		if (fault !== undefined && random.integer(1, 8) === 1) standIn.faults.next(fault);
	});
	// The first page has neither companies nor phones, so only later pages show whether the list returns them.
	for (let n = 1; n <= contacts; n++) add(n <= 50 ? 130 * n : n);
	standIn.add({ ...fieldsOf(5), categoryId: 7 });
	clock.advance(3_600_000);
	await untilDone(sync, () => sync.synchroniser.run());
	await isEqual();

	// Changes with a new time of change reach an incremental run.
	clock.advance(3_600_000);
	const ids = [...truth.keys()];
	const part = (from: number, to: number) => ids.slice(contacts * from, contacts * to);
	for (const [index, id] of part(0, 0.2).entries()) change(id, contacts + index, true);
	for (let n = 1; n <= 70; n++) add(2 * contacts + n);
	await untilDone(sync, () => sync.synchroniser.run());
	await isEqual();

	// Other changes and deletions reach the mirror as events.
	clock.advance(3_600_000);
	const [restored = 0] = part(0.5, 1);
	for (const [index, id] of part(0.2, 0.25).entries()) change(id, 3 * contacts + index, false);
	for (const id of part(0.25, 0.26)) remove(id);
	remove(restored);
	await storeEvents(restored, ...part(0.2, 0.26), add(5 * contacts));
	await untilDone(sync, () => sync.synchroniser.events());
	await isEqual();

	// A full run finds everything else.
	clock.advance(3_600_000);
	for (const id of part(0.3, 0.31)) remove(id);
	for (const [index, id] of part(0.31, 0.35).entries()) change(id, 4 * contacts + index, false);
	standIn.restore(restored);
	truth.set(restored, contacts / 2 + 1);
	await untilDone(sync, async () => sync.synchroniser.run({ full: (await sync.state()).full_begun_at === null }));
	await isEqual();
	if (Object.keys(lists).length > 0) expect(standIn.blockedOperations).toBeGreaterThan(0);
	expect(standIn.blockedRequests).toBe(0);
	expect(standIn.highestRequestCount).toBeLessThanOrEqual(50);
});
