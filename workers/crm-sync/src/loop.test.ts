import { database, test } from '@contacts/testing/test.js';
import { beforeEach, expect, onTestFinished, vi } from 'vitest';
import { createLoop } from './testing/loop.js';
import { emptyMirror, makeContact } from './testing/portal.js';

// A pass that was stopped leaves staged rows. `afterEach` runs before `onTestFinished` stops the synchroniser.
beforeEach(emptyMirror);

test('an incomplete full pass is repeated after ten minutes, not at once', async () => {
	const { standIn, clock, start, close } = await createLoop();
	onTestFinished(close);
	for (let n = 1; n <= 120; n++) standIn.add(makeContact(n));
	standIn.faults.always({ kind: 'empty-list' }, { when: ({ params }) => Number(params.filter?.['>id']) > 40 });
	const begun: number[] = [];
	standIn.onRequest(({ params }) => {
		if (params.filter?.['>id'] === 0) begun.push(clock.now());
	});
	start();
	await vi.waitUntil(() => begun.length >= 4, { timeout: 50_000 });
	const [first = 0, ...others] = begun;
	for (const [index, at] of others.entries()) expect(at - (begun[index] ?? first)).toBeGreaterThanOrEqual(600_000);
	expect(await database.sql`select from company_contacts`).toHaveLength(0);
});

test('a contact at which the portal breaks off each batch delays neither passes nor other events', async () => {
	const { standIn, clock, start, close } = await createLoop();
	onTestFinished(close);
	const [broken, other] = [standIn.add(makeContact(1)), standIn.add(makeContact(2))];
	const begun: number[] = [];
	standIn.onRequest(({ params }) => {
		if (params.filter?.['>=updatedTime'] !== undefined) begun.push(clock.now());
	});
	standIn.faults.always(
		{ kind: 'html', status: 502 },
		{ method: 'batch', when: ({ params }) => JSON.stringify(params).includes(`id=${broken.id}`) },
	);
	start();
	await expect.poll(() => database.sql`select from company_contacts`).toHaveLength(2);
	standIn.update(other.id, { lastName: 'Handled' }, { touch: false });
	await database.sql`
		insert into crm_event_inbox (bitrix_id, event, received_at)
		select id, 'ONCRMCONTACTUPDATE', to_timestamp(${clock.now()}::float8 / 1000)
		from unnest(${`{${[broken.id, other.id].join()}}`}::text::bigint[]) id`;
	const passes = begun.length;
	await expect.poll(() => begun.length).toBeGreaterThan(passes + 3);
	await expect.poll(() => database.sql`select from company_contacts where name like '%Handled'`).toHaveLength(1);
	expect(await database.sql`select from crm_event_inbox where bitrix_id = ${other.id}`).toHaveLength(0);
});

test('events that wait for the end of a rate-limit pause delay no pass', async () => {
	// The portal executes the method of the events for 480 seconds within ten minutes.
	const { standIn, clock, start, close } = await createLoop({ operatingSecondsPerCall: { 'crm.item.get': 8 } });
	onTestFinished(close);
	for (let n = 1; n <= 100; n++) standIn.add(makeContact(n));
	await database.sql`
		insert into crm_event_inbox (bitrix_id, event)
		select id, 'ONCRMCONTACTUPDATE' from unnest(${`{${[...standIn.contacts.keys()]}}`}::text::bigint[]) id`;
	const begun: number[] = [];
	standIn.onRequest(({ params }) => {
		if (params.filter?.['>id'] === 0) begun.push(clock.now());
	});
	const outcomes: string[] = [];
	start((outcome) => outcomes.push(outcome));
	await expect.poll(() => database.sql`select from crm_event_inbox`, { timeout: 20_000 }).toHaveLength(0);
	expect(begun.length).toBeGreaterThan(2);
	for (const [index, at] of begun.slice(1).entries()) expect(at - (begun[index] ?? 0)).toBeLessThan(420_000);
	expect(outcomes).not.toContain('failed');
});
