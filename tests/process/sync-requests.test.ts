import { EventEmitter, once } from 'node:events';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import type { RunningService } from '@contacts/testing/services.js';
import { type CommandOutcome, startCommand, startSynchroniser } from '@contacts/testing/synchroniser.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, afterEach, beforeEach, describe, expect, vi } from 'vitest';

let standIn: StandIn;
let synchroniser: RunningService | undefined;
let env: Record<string, string>;
// Each test starts several processes, one after the other. On a busy machine each takes seconds.
const patient = { timeout: 60_000 };
vi.setConfig({ testTimeout: 240_000 });
const undone: (() => void)[] = [];

test.beforeAll(async () => {
	standIn = await startStandIn({ plan: 'enterprise' });
	for (let n = 1; n <= 180; n++) standIn.add({ lastName: `Contact ${n}`, companyIds: [n] });
	env = { BITRIX24_WEBHOOK_URL: standIn.webhookUrl };
});
beforeEach(async () => {
	await database.sql`update crm_sync_state set requested = null, requested_at = null`;
	if (synchroniser?.hasExited === false) return;
	const before = await lastDone();
	synchroniser = await startSynchroniser(database.url, env);
	// The first pass is the synchroniser's own, without a request.
	await vi.waitUntil(async () => (await lastDone()) > before, patient);
});
afterEach(() => undone.splice(0).forEach((undo) => void undo()));
afterAll(async () => {
	await synchroniser?.stop('SIGKILL');
	await standIn?.close();
});

/** Beside a running synchroniser the command needs no variable of the CRM. */
const start = (...args: string[]) => startCommand(database.url, ['sync', ...args], {});
const contacts = (...args: string[]) => start(...args).outcome;
/** The same, but able to do the work itself. */
const startOnce = (...args: string[]) => startCommand(database.url, ['sync', '--once', ...args], env);
const count = async () => (await database.sql`select from company_contacts`).length;
const lastDone = async () =>
	Number((await database.sql`select coalesce(max(id), 0) as id from crm_sync_runs where outcome = 'done'`)[0]?.id);
const requested = async () => (await database.sql`select requested from crm_sync_state`)[0]?.requested;
const ids = () => [...standIn.contacts.keys()];
const companiesOf = async (id: number) =>
	(await database.sql`select array_to_string(company_ids, ',') as ids from company_contacts where bitrix_id = ${id}`)[0]
		?.ids;
const failure = (line: RegExp): CommandOutcome => ({ code: 1, out: '', error: expect.stringMatching(line) });

/** Holds the next page of a full pass until it is released. */
function holdPage(): { isHeld: () => boolean; release: () => void } {
	const released = new EventEmitter();
	let held = false;
	const undo = standIn.onRequest(async ({ params }) => {
		if (params.filter?.['>id'] === undefined || held) return;
		held = true;
		await once(released, 'now');
	});
	undone.push(undo, () => released.emit('now'));
	return { isHeld: () => held, release: () => void released.emit('now') };
}

describe('the running synchroniser does what the command requests', () => {
	test('a pass, and the mirror is complete up to then', async () => {
		const [first = 0] = ids();
		standIn.update(first, { companyIds: [4711] });
		standIn.add({ lastName: 'New' });
		expect(await contacts()).toEqual({
			code: 0,
			out: expect.stringMatching(/^Incremental pass: 1 new, 1 changed, 0 deleted/),
			error: '',
		});
		expect([await count(), await companiesOf(first), await requested()]).toEqual([ids().length, '4711', null]);
	});

	test.each([[['--once', '--full']], [['--full']]])('%j, with deletions and links', async (args) => {
		const [first = 0, second = 0] = ids();
		standIn.update(second, { companyIds: [4712] }, { touch: false });
		standIn.remove(first);
		const { code, out } = await contacts(...args, '--json');
		expect([code, JSON.parse(out)]).toEqual([0, expect.objectContaining({ kind: 'full', changed: 1, deleted: 1 })]);
		expect([await count(), await companiesOf(second)]).toEqual([ids().length, '4712']);
	});

	test('--contact, which fails for one that the CRM does not know', async () => {
		const [first = 0] = ids();
		standIn.update(first, { companyIds: [4713] }, { touch: false });
		expect(await contacts('--contact', String(first))).toMatchObject({ code: 0 });
		expect(await companiesOf(first)).toBe('4713');
		expect(await contacts('--contact', '987654')).toEqual(failure(/^error: The CRM has no contact 987654\.\n$/));
		expect(await database.sql`select from crm_event_inbox`).toHaveLength(0);
	});

	test('--confirm-mass-delete, which the preceding failure recommends', async () => {
		await contacts('--full');
		const before = await count();
		for (const id of ids().slice(0, 60)) standIn.remove(id);
		const { code, error } = await contacts('--full');
		const [, run = ''] = /^error: 60 contacts [^\n]*--confirm-mass-delete (\d+)"\.\n$/.exec(error) ?? [];
		expect([code, await count()]).toEqual([1, before]);
		expect(await contacts('--confirm-mass-delete', run)).toMatchObject({
			code: 0,
			out: expect.stringMatching(/60 deleted/),
		});
		expect(await count()).toBe(before - 60);
	});

	test('for two commands at once, by one pass of the larger kind', async () => {
		standIn.add({ lastName: 'New' });
		const outcomes = await Promise.all([contacts('--full'), contacts()]);
		expect(outcomes.map(({ code }) => code)).toEqual([0, 0]);
		expect(await count()).toBe(ids().length);
	});

	test('at once, although it was blocked a moment ago', async () => {
		standIn.faults.next({ kind: 'error', code: 'OVERLOAD_LIMIT' });
		expect(await contacts()).toEqual(failure(/^error: The portal refused it with OVERLOAD_LIMIT: [^\n]+\n$/));
		expect(await contacts()).toMatchObject({ code: 0 });
	});
});

test('a command with fields that differ from those of the mirror changes nothing', async () => {
	const { outcome } = startCommand(database.url, ['sync', '--once'], { ...env, BITRIX24_DEFAULT_COUNTRY: 'RU' });
	expect(await outcome).toEqual(
		failure(/^error: The mirror was made with another configuration: BITRIX24_DEFAULT_COUNTRY is not set there and RU/),
	);
});

test('a request that was made more than ten minutes ago is not served', async () => {
	const before = await lastDone();
	await database.sql`
		update crm_sync_state set requested = 'full', requested_at = now() - interval '11 minutes'`;
	await vi.waitUntil(async () => (await requested()) === null, patient);
	expect(await contacts()).toMatchObject({ code: 0, out: expect.stringMatching(/^Incremental pass/) });
	expect(await database.sql`select kind from crm_sync_runs where id > ${before} and kind = 'full'`).toHaveLength(0);
});

describe('the synchroniser is killed while it works on a request', () => {
	test('and the command does the work itself', async () => {
		const [first = 0] = ids();
		standIn.update(first, { companyIds: [4714] }, { touch: false });
		const page = holdPage();
		const { outcome } = startOnce('--full');
		await vi.waitUntil(page.isHeld, patient);
		await synchroniser?.stop('SIGKILL');
		page.release();
		expect(await outcome).toMatchObject({ code: 0, out: expect.stringMatching(/^Full pass: 0 new, 1 changed/) });
		expect(await companiesOf(first)).toBe('4714');
	});

	test('and a second one that waits, or the command, does the work', async () => {
		const second = await startSynchroniser(database.url, env);
		try {
			const [first = 0] = ids();
			standIn.update(first, { companyIds: [4711] }, { touch: false });
			const page = holdPage();
			const { outcome } = startOnce('--full');
			await vi.waitUntil(page.isHeld, patient);
			await synchroniser?.stop('SIGKILL');
			page.release();
			expect(await outcome).toMatchObject({ code: 0, out: expect.stringMatching(/^Full pass: /) });
			expect(await companiesOf(first)).toBe('4711');
		} finally {
			await second.stop();
		}
	});
});

describe('Ctrl-C', () => {
	test('withdraws a request that has not begun, with its confirmation', async () => {
		const page = holdPage();
		const busy = start('--full');
		await vi.waitUntil(page.isHeld, patient);
		await database.sql`update crm_sync_state set held_run = 7, held_deletions = 30`;
		const waiting = start('--confirm-mass-delete', '7');
		await vi.waitUntil(async () => (await requested()) === 'full', patient);
		waiting.signal('SIGINT');
		expect(await waiting.outcome).toEqual(failure(/^error: Interrupted: nothing was done\.\n$/));
		expect(await database.sql`select requested, confirmed_at from crm_sync_state`).toEqual([
			{ requested: null, confirmed_at: null },
		]);
		page.release();
		expect(await busy.outcome).toMatchObject({ code: 0 });
	});

	test('leaves a request that has begun to the synchroniser', async () => {
		standIn.add({ lastName: 'New' });
		const page = holdPage();
		const busy = start('--full');
		await vi.waitUntil(page.isHeld, patient);
		busy.signal('SIGINT');
		expect(await busy.outcome).toEqual(failure(/^error: Interrupted, but the synchroniser goes on with it/));
		page.release();
		await vi.waitUntil(async () => (await count()) === ids().length, patient);
	});
});
