import type { StandInContact, StandInOptions, UserField } from '@contacts/testing/bitrix24/stand-in.js';
import { database, test } from '@contacts/testing/test.js';
import { afterEach, expect } from 'vitest';
import { readState } from '../sync.sql.js';
import {
	type ExpectedRow,
	emptyMirror,
	expectedRow,
	makeContact,
	readMirror,
	reasonField,
	type SyncHarness,
	shareSession,
	startSync,
	troubleField,
} from './portal.js';

const trouble: UserField = { name: troubleField, type: 'boolean' };

/** Custom fields as plain values, or as multiple options of a list. */
const fieldKinds: Record<
	string,
	{ fields: UserField[]; uf: (n: number) => object; reason: (n: number) => string | null }
> = {
	plain: {
		fields: [trouble, { name: reasonField, type: 'string' }],
		// Every second contact has no value at all.
		uf: (n) =>
			n % 17 === 0 ? { [troubleField]: true, [reasonField]: ` reason ${n} ` } : n % 2 ? {} : { [reasonField]: '' },
		reason: (n) => (n % 17 === 0 ? `reason ${n}` : null),
	},
	lists: {
		fields: [
			trouble,
			{
				name: reasonField,
				type: 'enumeration',
				multiple: true,
				items: [
					{ id: 79, value: 'Price' },
					{ id: 80, value: 'Time' },
				],
			},
		],
		uf: (n) => ({ ...(n % 17 ? {} : { [troubleField]: true }), ...(n % 5 ? {} : { [reasonField]: [80, 79] }) }),
		reason: (n) => (n % 5 ? null : 'Time; Price'),
	},
};

interface Portal {
	sync: SyncHarness;
	/** The fields of the contact with this ID. */
	truth: Map<number, number>;
	kind: keyof typeof fieldKinds;
}

const contactOf = ({ kind }: Portal, n: number): Partial<StandInContact> => ({
	...makeContact(n),
	uf: { ...fieldKinds[kind]?.uf(n) },
});
function expected({ truth, kind }: Portal): ExpectedRow[] {
	const rows = [...truth].map(([id, n]) => ({
		...expectedRow(id, n),
		perplexity_reason: fieldKinds[kind]?.reason(n) ?? null,
	}));
	return rows.sort((a, b) => a.bitrix_id - b.bitrix_id);
}

const error = (code: string) => ({ kind: 'error', code }) as const;
const note = (...ids: number[]) => database.sql`
	insert into crm_event_inbox (bitrix_id, event) 
	select json_array_elements_text(${JSON.stringify(ids)}::text::json)::bigint, 'ONCRMCONTACTUPDATE'`;

function add(portal: Portal, n: number): number {
	const { id } = portal.sync.standIn.add(contactOf(portal, n));
	portal.truth.set(id, n);
	return id;
}
function change(portal: Portal, id: number, n: number, touch: boolean): void {
	portal.sync.standIn.update(id, contactOf(portal, n), { touch });
	portal.truth.set(id, n);
}
function remove(portal: Portal, id: number): void {
	portal.sync.standIn.remove(id);
	portal.truth.delete(id);
}
function restore(portal: Portal, id: number, n: number): number {
	const { id: restored } = portal.sync.standIn.restore(id);
	portal.truth.set(restored, n);
	return restored;
}

/** The history of a portal. After each part, the mirror equals the portal. */
async function walk(portal: Portal): Promise<void> {
	const { sync } = portal;
	const { standIn, clock } = sync;
	const mirrors = async () => expect(await readMirror()).toEqual(expected(portal));
	// The first page has neither companies nor phones, so only later pages show whether the list returns them.
	for (let n = 0; n < 60; n++) add(portal, n < 50 ? 130 * (n + 1) : n);
	for (let n = 60; n < 75; n++) add(portal, n);
	standIn.add({ ...contactOf(portal, 5), categoryId: 7 });
	const ids = [...portal.truth.keys()];
	const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0] = ids.slice(60);

	standIn.faults.next(error('INTERNAL_SERVER_ERROR'));
	await sync.synchroniser.pass();
	await mirrors();

	// Changes with a new time of change reach an incremental pass.
	clock.advance(3_600_000);
	change(portal, a, 205, true);
	add(portal, 206);
	standIn.useUp(60);
	standIn.faults.next(error('OPERATION_TIME_LIMIT'));
	expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental' });
	await mirrors();

	// Other changes and deletions reach the mirror as events.
	clock.advance(3_600_000);
	change(portal, b, 215, false);
	change(portal, c, 130, false);
	remove(portal, d);
	standIn.hide(({ id }) => id === e);
	const added = add(portal, 216);
	await note(b, c, d, e, added);
	standIn.faults.next(error('QUERY_LIMIT_EXCEEDED'));
	await sync.synchroniser.events();
	await mirrors();
	expect(await database.sql`select from crm_event_inbox`).toHaveLength(0);
	await note(restore(portal, d, 63));
	await sync.synchroniser.events();
	await mirrors();

	// A full pass finds everything else.
	clock.advance(3_600_000);
	remove(portal, f);
	change(portal, g, 225, false);
	standIn.update(g, { companyIds: makeContact(225).companyIds ?? [] });
	restore(portal, f, 65);
	remove(portal, a);
	await sync.synchroniser.pass({ full: true });
	await mirrors();
	expect((await sync.session.run(readState)).denied_contacts).toBe(1);

	// Without its right or its webhook, the portal is refused with a clear error, and nothing changes.
	standIn.scopes.length = 0;
	for (const full of [true, false])
		await expect(sync.synchroniser.pass({ full })).rejects.toMatchObject({ kind: 'stop' });
	standIn.revokeWebhook();
	await note(b);
	await expect(sync.synchroniser.events()).rejects.toMatchObject({ code: 'INVALID_CREDENTIALS' });
	await mirrors();
}

/**
 * Registers a test for each of these portals: the mirror equals it after each run.
 *
 * @param portals what their lists return
 */
export function testPortals(kind: keyof typeof fieldKinds, portals: NonNullable<StandInOptions['lists']>[]): void {
	const session = shareSession();
	let sync: SyncHarness | undefined;
	afterEach(async () => {
		await sync?.close();
		await emptyMirror();
	});
	test.each(portals)('the mirror equals the portal after each run if its lists return %j', async (lists) => {
		sync = await startSync({ fields: fieldKinds[kind]?.fields ?? [], lists }, { session: session() });
		await walk({ sync, truth: new Map(), kind });
	});
}
