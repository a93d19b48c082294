import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import {
	confirmHeldDeletions,
	error,
	makeContact,
	mirroredIds,
	readMirror,
	type SyncHarness,
	startSync,
	storeEvents,
} from './testing/portal.js';

let sync: SyncHarness;
const sorted = (ids: number[]) => ids.toSorted((a, b) => a - b);
afterEach(() => sync.close());

describe('a contact', () => {
	beforeEach(async () => {
		sync = await startSync();
		sync.fill(60);
		await sync.synchroniser.pass();
		sync.standIn.requests.length = 0;
	});
	const pass = () => sync.synchroniser.pass({ full: true });

	test('that was deleted or merged in the CRM is looked up and then deleted, and created again when it is restored', async () => {
		const [first = 0, second = 0, third = 0] = sync.ids();
		sync.standIn.remove(first);
		sync.standIn.merge(second, third);
		expect(await pass()).toMatchObject({ deleted: 2 });
		expect(await mirroredIds()).toEqual(sync.ids());
		expect(sync.standIn.requests.filter(({ method }) => method === 'batch')).toHaveLength(1);
		sync.standIn.restore(first);
		await pass();
		expect(await mirroredIds()).toEqual(sorted(sync.ids()));
	});

	test('that is no longer readable stays, and an alarm is raised', async () => {
		const before = await readMirror();
		const hidden = new Set(sync.ids().slice(0, 3));
		sync.standIn.hide(({ id }) => hidden.has(id));
		expect(await pass()).toMatchObject({ deleted: 0 });
		expect(await readMirror()).toEqual(before);
		expect((await sync.state()).denied_contacts).toBe(3);
	});

	test.each(['INTERNAL_SERVER_ERROR', 'SOMETHING_NEW', '', 'constructor', '__proto__', 'deleted'])(
		'whose look-up failed with "%s" stays, and the others are deleted',
		async (code) => {
			const [first = 0, second = 0] = sync.ids();
			const isFirst = ({ params }: { params: Record<string, unknown> }) => Number(params.id) === first;
			sync.standIn.faults.always(error(code), { method: 'crm.item.get', when: isFirst });
			sync.standIn.remove(first);
			sync.standIn.remove(second);
			expect(await pass()).toMatchObject({ deleted: 1 });
			expect(await mirroredIds()).toEqual([first, ...sync.ids()]);
			expect((await sync.state()).unread_contacts).toBe(1);
			expect(sync.unread).toEqual(['full']);
		},
	);

	test('that became a vendor of the catalogue is deleted; one that always was a vendor is never created', async () => {
		sync.standIn.update(sync.ids()[0] ?? 0, { categoryId: 7 });
		sync.standIn.add({ ...makeContact(1), categoryId: 7 });
		await pass();
		expect(await mirroredIds()).toHaveLength(59);
	});
});

test.each([
	['60 contacts, half of which are missing', 60, 30],
	['10 contacts, all of which are missing', 10, 10],
])(
	'a mirror of %s keeps them until somebody confirms, and then until a pass is complete',
	async (_, count, missing) => {
		sync = await startSync();
		sync.fill(count);
		await sync.synchroniser.pass();
		const missed = sync.ids().slice(0, missing);
		for (const id of missed) sync.standIn.remove(id);
		await confirmHeldDeletions(sync);
		expect(await sync.state()).toMatchObject({ held_deletions: missing });
		expect(await mirroredIds()).toHaveLength(count);

		const { id: incomplete } = sync.standIn.add({ ...makeContact(1), raw: { assignedById: undefined } });
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({ name: 'IncompletePassError' });
		expect(await mirroredIds()).toHaveLength(count);

		sync.standIn.update(incomplete, { raw: {} });
		await confirmHeldDeletions(sync);
		await sync.synchroniser.pass({ full: true });
		expect(await mirroredIds()).toEqual(sync.ids());
	},
);

describe('many deletions', () => {
	beforeEach(async () => {
		// 71 look-ups within ten minutes; then the portal pauses the method.
		sync = await startSync({ operatingSecondsPerCall: { 'crm.item.get': 1 }, operatingLimitSeconds: 70 });
		sync.fill(240);
		await sync.synchroniser.pass();
		sync.clock.advance(600_000);
		sync.standIn.requests.length = 0;
	});
	const removeMany = () => {
		for (const id of sync.ids().slice(0, 160)) sync.standIn.remove(id);
	};
	const pass = () => sync.synchroniser.pass({ full: true });

	/** How often the portal has returned each contact. */
	function lookUps(): number[] {
		const counts = new Map<unknown, number>();
		for (const { method, params, error } of sync.standIn.requests.flatMap(({ calls = [] }) => calls)) {
			if (method !== 'crm.item.get' || error === 'OPERATION_TIME_LIMIT') continue;
			counts.set(params.id, (counts.get(params.id) ?? 0) + 1);
		}
		return [...counts.values()];
	}

	/** Runs passes like the loop, each when the portal allows it, until one is done. @returns the sizes that readers saw */
	async function passUntilDone(restart: boolean): Promise<number[]> {
		const sizes = new Set<number>();
		await confirmHeldDeletions(sync);
		for (let passes = 1; passes <= 30; passes++) {
			const done = await sync.synchroniser.pass({ full: passes === 1 }).catch((failure) => {
				expect(failure).toMatchObject({ code: 'OPERATION_TIME_LIMIT' });
			});
			sizes.add((await mirroredIds()).length);
			if (done !== undefined) return [...sizes];
			sync.clock.advance(Math.max(0, ((await sync.state()).blocked_until ?? 0) - sync.clock.now()));
			if (restart) await sync.restart();
		}
		throw new Error('the pass was never done');
	}

	test.each([
		['all contacts are', 240],
		['many contacts are', 160],
	])('are on hold when %s missing, with an alarm, until somebody confirms', async (_, hidden) => {
		const before = await readMirror();
		const { last_success_at: equalAt } = await sync.state();
		for (const id of sync.ids().slice(0, hidden)) sync.standIn.remove(id);
		expect(await pass()).toMatchObject({ deleted: 0, isHeld: true });
		expect(await readMirror()).toEqual(before);
		// The mirror still has them, so it is not found equal to the CRM meanwhile.
		await sync.restart();
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental' });
		expect(await sync.state()).toMatchObject({ held_deletions: hidden, last_success_at: equalAt });
	});

	test('are no longer on hold when the contacts are back', async () => {
		const { last_success_at: equalAt } = await sync.state();
		sync.standIn.hide(() => true);
		await pass();
		sync.standIn.showAll();
		await sync.synchroniser.pass();
		expect((await sync.state()).last_success_at).toBe(equalAt);
		await pass();
		expect((await sync.state()).held_run).toBe(null);
		expect((await sync.state()).last_success_at).toBeGreaterThan(equalAt ?? Number.NaN);
	});

	test.each([false, true])(
		'that the portal confirms slowly are each looked up once, and visible all at once (restarts between: %s)',
		async (restart) => {
			removeMany();
			expect(await passUntilDone(restart)).toEqual([240, 80]);
			expect(await mirroredIds()).toEqual(sync.ids());
			expect(lookUps()).toEqual(Array(160).fill(1));
			expect((await sync.state()).held_run).toBe(null);
			// The confirmation was valid only for this pass.
			for (const id of sync.ids().slice(0, 40)) sync.standIn.remove(id);
			sync.clock.advance(600_000);
			await pass();
			expect(await mirroredIds()).toHaveLength(80);
			expect((await sync.state()).held_deletions).toBe(40);
		},
	);

	test.each([
		['was given up eleven minutes ago', "confirmed_at = confirmed_at - interval '11 minutes'"],
		['names another run', 'confirmed_run = confirmed_run - 1'],
		['was for fewer contacts than are missing by now', ''],
	])('are not made by a confirmation that %s, now or later', async (_, change) => {
		removeMany();
		await confirmHeldDeletions(sync);
		if (change === '') sync.standIn.remove(sync.ids()[0] ?? 0);
		else await database.sql.unsafe(`update crm_sync_state set ${change}`);
		for (let run = 0; run < 2; run++) {
			expect(await pass()).toMatchObject({ deleted: 0, isHeld: true });
			expect(await mirroredIds()).toHaveLength(240);
		}
	});

	describe('leave a contact that is restored after its look-up', () => {
		beforeEach(async () => {
			removeMany();
			const [first = 0] = await mirroredIds();
			await confirmHeldDeletions(sync);
			await expect(pass()).rejects.toMatchObject({ code: 'OPERATION_TIME_LIMIT' });
			expect(lookUps().length).toBeGreaterThan(0);
			sync.standIn.restore(first);
			await storeEvents(first);
			sync.clock.advance(600_000);
		});

		async function finishPass(): Promise<void> {
			await sync.synchroniser.events();
			for (let passes = 0; (await sync.state()).full_begun_at !== null; passes++) {
				expect(passes).toBeLessThan(30);
				await sync.synchroniser.pass().catch(() => undefined);
				sync.clock.advance(600_000);
			}
		}

		test('if its event arrived', async () => {
			await finishPass();
			expect(await mirroredIds()).toEqual(sorted(sync.ids()));
		});

		test('as it is, if the portal returns it incompletely when its event is handled', async () => {
			const [before] = await readMirror();
			sync.standIn.faults.always({ kind: 'with-fields', values: { fm: undefined, assignedById: undefined } });
			await finishPass();
			expect((await readMirror())[0]).toEqual(before);
		});
	});
});
