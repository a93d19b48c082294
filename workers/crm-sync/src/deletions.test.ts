import { database, test } from '@contacts/testing/test.js';
import { beforeEach, describe, expect } from 'vitest';
import {
	error,
	makeContact,
	makeContacts,
	mirroredIds,
	readMirror,
	type SyncHarness,
	startSync,
	storeEvents,
} from './testing/harness.js';

let sync: SyncHarness;
const run = () => sync.synchroniser.run({ full: true });
const sorted = (ids: number[]) => ids.toSorted((a, b) => a - b);

/** Makes a full run that puts its deletions on hold, and confirms them. */
async function confirmHeldDeletions(): Promise<void> {
	await run();
	await sync.confirm();
}

describe('a contact', () => {
	beforeEach(async () => {
		sync = await startSync({ contacts: makeContacts(60) });
		await sync.synchroniser.run();
		sync.standIn.requests.length = 0;
	});

	test('that was deleted or merged in the CRM is looked up and then deleted, and created again when it is restored', async () => {
		const [first = 0, second = 0, third = 0] = sync.ids();
		sync.standIn.remove(first);
		sync.standIn.merge(second, third);
		expect(await run()).toMatchObject({ deleted: 2 });
		expect(await mirroredIds()).toEqual(sync.ids());
		expect(sync.standIn.requests.filter(({ method }) => method === 'batch')).toHaveLength(1);
		sync.standIn.restore(first);
		await run();
		expect(await mirroredIds()).toEqual(sorted(sync.ids()));
	});

	test('that is no longer readable stays, and an alarm is raised', async () => {
		const before = await readMirror();
		const hidden = new Set(sync.ids().slice(0, 3));
		sync.standIn.hide(({ id }) => hidden.has(id));
		expect(await run()).toMatchObject({ deleted: 0 });
		expect(await readMirror()).toEqual(before);
		expect((await sync.state()).denied_contacts).toBe(3);
	});

	test.each(['INTERNAL_SERVER_ERROR', 'SOMETHING_NEW', '', 'constructor', '__proto__', 'deleted'])(
		'whose look-up failed with "%s" stays, the others are deleted, and the mirror does not count as equal to the CRM',
		async (code) => {
			const [first = 0, second = 0] = sync.ids();
			const { last_success_at: equalAt, watermark } = await sync.state();
			const isFirst = ({ params }: { params: Record<string, unknown> }) => Number(params.id) === first;
			sync.standIn.faults.always(error(code), { method: 'crm.item.get', when: isFirst });
			sync.standIn.remove(first);
			sync.standIn.remove(second);
			await expect(run()).rejects.toMatchObject({ name: 'IncompleteRunError' });
			expect(await mirroredIds()).toEqual([first, ...sync.ids()]);
			expect(sync.unread).toEqual(['full']);
			expect([
				...(await database.sql`select outcome, deleted, unread from crm_sync_runs order by id desc limit 1`),
			]).toEqual([{ outcome: 'incomplete', deleted: '1', unread: '1' }]);
			expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });
			expect(await sync.state()).toMatchObject({ unread_contacts: 1, last_success_at: equalAt, last_full_at: null });
			expect((await sync.state()).watermark).toBeGreaterThanOrEqual(watermark ?? Number.NaN);

			sync.standIn.faults.clear();
			sync.clock.advance(3_600_000);
			expect(await sync.synchroniser.run()).toMatchObject({ kind: 'full', deleted: 1 });
			expect(await mirroredIds()).toEqual(sync.ids());
			expect((await sync.state()).last_success_at).toBeGreaterThan(equalAt ?? Number.NaN);
		},
	);

	test('that was deleted in the CRM is deleted by a run in which another contact is unread', async () => {
		const [first = 0, second = 0] = sync.ids();
		const { last_success_at: equalAt, watermark } = await sync.state();
		sync.standIn.remove(first);
		sync.standIn.update(second, { raw: { assignedById: undefined } });
		await expect(run()).rejects.toMatchObject({ counts: { deleted: 1, unread: 1 } });
		expect(await mirroredIds()).toEqual(sync.ids());
		expect(await sync.state()).toMatchObject({ last_success_at: equalAt, last_full_at: null, watermark });
	});

	test('that became a vendor of the catalogue is deleted; one that always was a vendor is never created', async () => {
		sync.standIn.update(sync.ids()[0] ?? 0, { categoryId: 7 });
		sync.standIn.add({ ...makeContact(1), categoryId: 7 });
		await run();
		expect(await mirroredIds()).toHaveLength(59);
	});
});

test.each([
	['60 contacts, half of which are missing', 60, 30],
	['10 contacts, all of which are missing', 10, 10],
])(
	'a mirror of %s keeps them until somebody confirms, whether or not another contact is unread',
	async (_, count, missing) => {
		sync = await startSync({ contacts: makeContacts(count) });
		await sync.synchroniser.run();
		const missed = sync.ids().slice(0, missing);
		for (const id of missed) sync.standIn.remove(id);
		// Of a list that is empty all contacts are missing.
		const { id: unread } = sync.standIn.add({ ...makeContact(1), raw: { assignedById: undefined } });
		if (missing === count) sync.standIn.faults.always({ kind: 'empty-list' });
		const outcome = () =>
			run().then(
				({ isHeld }) => `held: ${isHeld}`,
				(failure: Error) => failure.name,
			);
		for (let round = 0; round < 2; round++) {
			expect(await outcome()).toBe(missing < count ? 'IncompleteRunError' : 'held: true');
			expect(await sync.state()).toMatchObject({ held_deletions: missing });
			expect(await mirroredIds()).toHaveLength(count);
		}

		await sync.confirm();
		expect(await outcome()).toBe(missing < count ? 'IncompleteRunError' : 'held: false');
		expect(await mirroredIds()).toEqual(sync.ids().filter((id) => id !== unread));
		expect((await sync.state()).held_run).toBe(null);
	},
);

test('many deletions are confirmed, too, where the CRM bills a batch as a method, and not its commands', async () => {
	const seconds = { 'crm.item.get': 1 };
	sync = await startSync({
		contacts: makeContacts(240),
		billing: 'batch',
		operatingSecondsPerCall: seconds,
		operatingLimitSeconds: 70,
	});
	await sync.synchroniser.run();
	for (const id of sync.ids().slice(0, 160)) sync.standIn.remove(id);
	await confirmHeldDeletions();
	await run();
	expect(await mirroredIds()).toEqual(sync.ids());
	expect(sync.standIn.blockedOperations).toBeGreaterThan(0);
});

describe('many deletions', () => {
	beforeEach(async () => {
		// 71 look-ups within ten minutes; then the CRM pauses the method.
		sync = await startSync({
			contacts: makeContacts(240),
			operatingSecondsPerCall: { 'crm.item.get': 1 },
			operatingLimitSeconds: 70,
		});
		await sync.synchroniser.run();
		sync.clock.advance(600_000);
		sync.standIn.requests.length = 0;
	});
	const removeMany = () => {
		for (const id of sync.ids().slice(0, 160)) sync.standIn.remove(id);
	};

	/** How often the CRM has returned each contact. */
	function lookUps(): number[] {
		const counts = new Map<unknown, number>();
		for (const { method, params, error } of sync.standIn.requests.flatMap(({ calls = [] }) => calls)) {
			if (method !== 'crm.item.get' || error === 'OPERATION_TIME_LIMIT') continue;
			counts.set(params.id, (counts.get(params.id) ?? 0) + 1);
		}
		return [...counts.values()];
	}

	/** The CRM refuses everything after the first look-ups. */
	async function interrupt(): Promise<void> {
		sync.standIn.faults.always(error('INVALID_CREDENTIALS'), { method: 'batch', when: () => lookUps().length > 0 });
		await expect(run()).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
		expect(lookUps().length).toBeGreaterThan(0);
		sync.standIn.faults.clear();
	}

	test('are on hold, with an alarm, and no longer when the contacts are back', async () => {
		const before = await readMirror();
		const { last_success_at: equalAt } = await sync.state();
		sync.standIn.hide(() => true);
		expect(await run()).toMatchObject({ deleted: 0, isHeld: true });
		expect(await readMirror()).toEqual(before);
		sync.standIn.showAll();
		// The mirror still has them, so it is not found equal to the CRM meanwhile.
		await sync.restart();
		expect(await sync.synchroniser.run()).toMatchObject({ kind: 'incremental' });
		expect(await sync.state()).toMatchObject({ held_deletions: 240, last_success_at: equalAt });
		await run();
		expect((await sync.state()).held_run).toBe(null);
		expect((await sync.state()).last_success_at).toBeGreaterThan(equalAt ?? Number.NaN);
	});

	test('that the CRM confirms slowly are each looked up once, also after a restart, and visible all at once', async () => {
		removeMany();
		await confirmHeldDeletions();
		const sizes = new Set<number>();
		sync.standIn.onRequest(async () => void sizes.add((await mirroredIds()).length));
		await interrupt();
		await sync.restart();
		await sync.synchroniser.run();
		expect([...sizes]).toEqual([240]);
		expect(await mirroredIds()).toEqual(sync.ids());
		expect(lookUps()).toEqual(Array(160).fill(1));
		expect(sync.standIn.blockedOperations).toBeGreaterThan(0);
		expect((await sync.state()).held_run).toBe(null);
		// The confirmation was valid only for this run.
		for (const id of sync.ids().slice(0, 40)) sync.standIn.remove(id);
		await run();
		expect(await mirroredIds()).toHaveLength(80);
		expect((await sync.state()).held_deletions).toBe(40);
	});

	test.each([
		['was given up eleven minutes ago', "confirmed_at = confirmed_at - interval '11 minutes'"],
		['names another run', 'confirmed_run = confirmed_run - 1'],
		['was for fewer contacts than are missing by now', ''],
	])('are not made by a confirmation that %s, now or later', async (_, change) => {
		removeMany();
		await confirmHeldDeletions();
		if (change === '') sync.standIn.remove(sync.ids()[0] ?? 0);
		else await database.sql.unsafe(`update crm_sync_requests set ${change}`);
		for (let round = 0; round < 2; round++) {
			expect(await run()).toMatchObject({ deleted: 0, isHeld: true });
			expect(await mirroredIds()).toHaveLength(240);
		}
	});

	test('are made by a run that was under way when they were confirmed', async () => {
		removeMany();
		await run();
		const undo = sync.standIn.onRequest(async ({ params }) => {
			if (!Number(params.filter?.['>id'])) return;
			undo();
			await sync.confirm();
		});
		expect(await run()).toMatchObject({ deleted: 160 });
	});

	describe('leave a contact that is restored after its look-up', () => {
		beforeEach(async () => {
			removeMany();
			const [first = 0] = await mirroredIds();
			await confirmHeldDeletions();
			await interrupt();
			sync.standIn.restore(first);
			await storeEvents(first);
		});

		async function finishRun(): Promise<void> {
			await sync.synchroniser.events();
			await sync.synchroniser.run().catch(() => undefined);
			expect((await sync.state()).full_begun_at).toBe(null);
		}

		test('if its event arrived', async () => {
			await finishRun();
			expect(await mirroredIds()).toEqual(sorted(sync.ids()));
		});

		test('as it is, if the CRM returns it incompletely when its event is handled', async () => {
			const [before] = await readMirror();
			sync.standIn.faults.always({ kind: 'with-fields', values: { fm: undefined, assignedById: undefined } });
			await finishRun();
			expect((await readMirror())[0]).toEqual(before);
		});
	});
});
