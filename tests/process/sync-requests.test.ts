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
	await database.sql`delete from crm_sync_requests`;
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

const start = (...args: string[]) => startCommand(database.url, ['sync', ...args], env);
const contacts = (...args: string[]) => start(...args).outcome;
const count = async () => (await database.sql`select from company_contacts`).length;
const lastDone = async () =>
	Number((await database.sql`select coalesce(max(id), 0) as id from crm_sync_runs where outcome = 'done'`)[0]?.id);
const requests = async () => [
	...(await database.sql<{ kind: string; taken: boolean; ended: boolean }[]>`
		select kind, taken_at is not null as taken, ended_at is not null as ended from crm_sync_requests order by id`),
];
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
	test('--once, and the mirror is complete up to then', async () => {
		const [first = 0] = ids();
		standIn.update(first, { companyIds: [4711] });
		standIn.add({ lastName: 'New' });
		expect(await contacts('--once')).toEqual({
			code: 0,
			out: expect.stringMatching(/^Incremental pass: 1 new, 1 changed, 0 deleted/),
			error: '',
		});
		expect([await count(), await companiesOf(first)]).toEqual([ids().length, '4711']);
		expect(await requests()).toEqual([{ kind: 'pass', taken: true, ended: true }]);
	});

	test.each([[['--once', '--full']], [['--full']]])('%j, with deletions and links', async (args) => {
		const [first = 0, second = 0] = ids();
		standIn.update(second, { companyIds: [4712] }, { touch: false });
		standIn.remove(first);
		const { code, out } = await contacts(...args, '--json');
		expect([code, JSON.parse(out)]).toEqual([0, expect.objectContaining({ kind: 'full', changed: 1, deleted: 1 })]);
		expect([await count(), await companiesOf(second)]).toEqual([ids().length, '4712']);
	});

	test('--contact', async () => {
		const [first = 0] = ids();
		standIn.update(first, { companyIds: [4713] }, { touch: false });
		expect(await contacts('--contact', String(first))).toMatchObject({
			code: 0,
			out: expect.stringMatching(/1 changed/),
		});
		expect(await companiesOf(first)).toBe('4713');
	});

	test('--dry-run, and writes nothing', async () => {
		const { id } = standIn.add({ lastName: 'New' });
		expect(await contacts('--dry-run')).toMatchObject({
			code: 0,
			out: expect.stringMatching(/^A full pass would make 1 new/),
		});
		expect(await companiesOf(id)).toBe(undefined);
	});

	test('--confirm-mass-delete, which the preceding failure recommends', async () => {
		await contacts('--once', '--full');
		const before = await count();
		for (const id of ids().slice(0, 60)) standIn.remove(id);
		expect(await contacts('--once', '--full')).toMatchObject({
			code: 1,
			error: expect.stringMatching(/^error: 60 of \d+ [^\n]*--confirm-mass-delete[^\n]*\n$/),
		});
		expect(await count()).toBe(before);
		expect(await contacts('--confirm-mass-delete')).toMatchObject({
			code: 0,
			out: expect.stringMatching(/60 deleted/),
		});
		expect(await count()).toBe(before - 60);
	});

	test('for two commands at once', async () => {
		standIn.add({ lastName: 'New' });
		const outcomes = await Promise.all([contacts('--once', '--full'), contacts('--once')]);
		expect(outcomes.map(({ code }) => code)).toEqual([0, 0]);
		expect(await count()).toBe(ids().length);
	});

	test('at once, although it was blocked a moment ago', async () => {
		standIn.faults.next({ kind: 'error', code: 'OVERLOAD_LIMIT' });
		expect(await contacts('--once')).toEqual(failure(/^error: The portal refused \S+ with OVERLOAD_LIMIT: [^\n]+\n$/));
		expect(await contacts('--once')).toMatchObject({ code: 0 });
	});
});

test('a command with fields that differ from those of the synchroniser changes nothing', async () => {
	const { outcome } = startCommand(database.url, ['sync', '--once'], { ...env, BITRIX24_DEFAULT_COUNTRY: 'RU' });
	expect(await outcome).toEqual(
		failure(
			/^error: The synchroniser that runs has another configuration: BITRIX24_DEFAULT_COUNTRY is not set there and RU/,
		),
	);
});

describe('the synchroniser is killed while it works on a request', () => {
	test('and the command does the work itself', async () => {
		const [first = 0] = ids();
		standIn.update(first, { companyIds: [4714] }, { touch: false });
		const page = holdPage();
		const { outcome } = start('--once', '--full');
		await vi.waitUntil(page.isHeld, patient);
		await synchroniser?.stop('SIGKILL');
		page.release();
		expect(await outcome).toMatchObject({ code: 0, out: expect.stringMatching(/^Full pass: 0 new, 1 changed/) });
		expect(await companiesOf(first)).toBe('4714');
		expect(await requests()).toEqual([]);
	});

	test('and a second one that waits, or the command, does the work', async () => {
		const second = await startSynchroniser(database.url, env);
		try {
			const [first = 0] = ids();
			standIn.update(first, { companyIds: [4711] }, { touch: false });
			const page = holdPage();
			const { outcome } = start('--once', '--full');
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
	test('withdraws a request that has not begun', async () => {
		const page = holdPage();
		const busy = start('--once', '--full');
		await vi.waitUntil(page.isHeld, patient);
		const waiting = start('--once');
		await vi.waitUntil(async () => (await requests()).length === 2, patient);
		waiting.signal('SIGINT');
		expect(await waiting.outcome).toEqual(failure(/^error: Interrupted: nothing was done\.\n$/));
		expect(await requests()).toEqual([{ kind: 'full', taken: true, ended: false }]);
		page.release();
		expect(await busy.outcome).toMatchObject({ code: 0 });
	});

	test('leaves a request that has begun to the synchroniser', async () => {
		standIn.add({ lastName: 'New' });
		const page = holdPage();
		const busy = start('--once', '--full');
		await vi.waitUntil(page.isHeld, patient);
		busy.signal('SIGINT');
		expect(await busy.outcome).toEqual(failure(/^error: Interrupted, but the synchroniser goes on with it/));
		page.release();
		await vi.waitUntil(async () => (await requests())[0]?.ended, patient);
		expect(await count()).toBe(ids().length);
	});
});

test('a request whose command is gone never begins, and the status counts waiting requests', async () => {
	for (const id of ids().slice(0, 60)) standIn.remove(id);
	const before = await count();
	await database.sql`
		insert into crm_sync_requests (kind, confirm_mass_delete, configuration, wanted_until)
		select 'full', true, configuration, now() - interval '1 second' from crm_sync_state`;
	const page = holdPage();
	const full = start('--once', '--full');
	await vi.waitUntil(page.isHeld, patient);
	expect((await contacts('status')).out).toMatch(/^requested +1 request of a command$/m);
	page.release();
	expect(await full.outcome).toMatchObject({ code: 1, error: expect.stringMatching(/60 of \d+/) });
	expect(await requests()).toEqual([
		{ kind: 'full', taken: false, ended: false },
		{ kind: 'full', taken: true, ended: true },
	]);
	expect(await count()).toBe(before);
});
