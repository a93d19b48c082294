import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, describe, expect } from 'vitest';
import { readState } from './sync.sql.js';
import {
	confirmHeldDeletions,
	emptyMirror,
	makeContact,
	readMirror,
	type SyncHarness,
	startSync,
} from './testing/portal.js';

let sync: SyncHarness;

beforeEach(async () => {
	// 71 look-ups within ten minutes; then the portal pauses the method.
	sync = await startSync({
		operatingSecondsPerCall: { 'crm.item.get': 1 },
		operatingLimitSeconds: 70,
	});
	for (let n = 1; n <= 240; n++) sync.standIn.add(makeContact(n));
	await sync.synchroniser.pass();
	for (const id of ids().slice(0, 160)) sync.standIn.remove(id);
	sync.clock.advance(600_000);
	sync.standIn.requests.length = 0;
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

const ids = () => [...sync.standIn.contacts.keys()];
const mirrored = async () => (await readMirror()).map((row) => row.bitrix_id);
const state = () => sync.session.run(readState);
/** How often the portal has returned each contact. */
function lookUps(): number[] {
	const counts = new Map<unknown, number>();
	for (const { calls = [] } of sync.standIn.requests) {
		for (const { method, params, error } of calls) {
			if (method !== 'crm.item.get' || error === 'OPERATION_TIME_LIMIT') continue;
			counts.set(params.id, (counts.get(params.id) ?? 0) + 1);
		}
	}
	return [...counts.values()];
}

/** Runs passes like the loop, each when the portal allows it, until one is done. */
async function passUntilDone(restart: boolean): Promise<{ passes: number; sizes: Set<number> }> {
	const sizes = new Set<number>();
	await confirmHeldDeletions(sync);
	for (let passes = 1; passes <= 30; passes++) {
		const done = await sync.synchroniser.pass({ full: passes === 1 }).catch((error: Error & { code?: string }) => {
			expect(error.code).toBe('OPERATION_TIME_LIMIT');
		});
		sizes.add((await mirrored()).length);
		if (done !== undefined) return { passes, sizes };
		sync.clock.advance(Math.max(0, ((await state()).blocked_until ?? 0) - sync.clock.now()));
		if (restart) await sync.restart();
	}
	throw new Error('the pass was never done');
}

describe.each([false, true])('many deletions that the portal confirms slowly (restarts between: %s)', (restart) => {
	test('are completed, each looked up once, and visible all at once', async () => {
		sync.standIn.update(ids()[0] ?? 0, { lastName: 'Changed' });
		const { sizes } = await passUntilDone(restart);
		expect(await mirrored()).toEqual(ids());
		expect(lookUps()).toHaveLength(160);
		expect(new Set(lookUps())).toEqual(new Set([1]));
		expect(sizes).toEqual(new Set([240, 80]));
		expect((await state()).held_run).toBe(null);
	});
});

describe('a contact that is restored after its look-up', () => {
	let first: number;

	beforeEach(async () => {
		first = (await mirrored())[0] ?? 0;
		await confirmHeldDeletions(sync);
		await expect(sync.synchroniser.pass({ full: true })).rejects.toMatchObject({
			code: 'OPERATION_TIME_LIMIT',
		});
		expect(lookUps().length).toBeGreaterThan(0);
		sync.standIn.restore(first);
		await database.sql`insert into crm_event_inbox (bitrix_id, event) values (${first}, 'ONCRMCONTACTADD')`;
		sync.clock.advance(600_000);
	});

	async function finishPass(): Promise<void> {
		for (let passes = 0; (await state()).full_begun_at !== null; passes++) {
			expect(passes).toBeLessThan(30);
			await sync.synchroniser.pass().catch(() => undefined);
			sync.clock.advance(600_000);
		}
	}

	test('is not deleted if its event arrived', async () => {
		await sync.synchroniser.events();
		await finishPass();
		expect(await mirrored()).toEqual(ids().sort((a, b) => a - b));
	});

	test('stays as it is if the portal returns it incompletely when its event is handled', async () => {
		const before = (await readMirror())[0];
		expect(before?.phone).not.toBe(null);
		sync.standIn.faults.always({ kind: 'with-fields', values: { fm: undefined, assignedById: undefined } });
		await sync.synchroniser.events();
		await finishPass();
		expect((await readMirror())[0]).toEqual(before);
	});
});

test('a confirmation is valid only for its own pass', async () => {
	await passUntilDone(false);
	for (const id of ids().slice(0, 40)) sync.standIn.remove(id);
	sync.clock.advance(600_000);
	await sync.synchroniser.pass({ full: true });
	expect(await mirrored()).toHaveLength(80);
	expect((await state()).held_deletions).toBe(40);
});

describe('a confirmation that does not count', () => {
	test.each([
		['was given up eleven minutes ago', "confirmed_at = confirmed_at - interval '11 minutes'"],
		['names another run', 'confirmed_run = confirmed_run - 1'],
	])('because it %s deletes nothing, now or later', async (_, change) => {
		await confirmHeldDeletions(sync);
		await database.sql.unsafe(`update crm_sync_state set ${change}`);
		for (let run = 0; run < 2; run++) {
			expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 0, isHeld: true });
			expect(await mirrored()).toHaveLength(240);
		}
	});

	test('because more contacts are missing by now deletes nothing', async () => {
		await confirmHeldDeletions(sync);
		const [first = 0] = ids();
		sync.standIn.remove(first);
		expect(await sync.synchroniser.pass({ full: true })).toMatchObject({ deleted: 0, isHeld: true });
		expect(await mirrored()).toHaveLength(240);
		expect((await state()).held_deletions).toBe(161);
	});
});
