import type { Fault, StandInOptions } from '@contacts/testing/bitrix24/stand-in.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { readState } from './sync.sql.js';
import {
	type ExpectedRow,
	emptyMirror,
	expectedRow,
	makeContact,
	readMirror,
	type SyncHarness,
	startSync,
} from './testing/portal.js';

/** As many as a test of a few seconds allows. The figures in docs/decisions/bitrix24.md are those of 10,000. */
const contacts = Number(process.env.CONTACTS ?? 2000);

const error = (code: string): Fault => ({ kind: 'error', code });
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

/** Runs until it is done, each time with a new synchroniser. */
async function untilDone(sync: SyncHarness, run: () => Promise<unknown>): Promise<void> {
	for (let runs = 0; runs < 100; runs++) {
		const isDone = await run().then(
			() => true,
			() => false,
		);
		if (isDone) return;
		const { blocked_until: until } = await sync.session.run(readState);
		sync.clock.advance(Math.max(0, (until ?? 0) - sync.clock.now()));
		await sync.restart();
	}
	throw new Error('the run was never done');
}

test.each<NonNullable<StandInOptions['lists']>>([
	{},
	{ companyIds: 'absent' },
	{ fm: 'empty' },
	{ companyIds: 'sometimes', fm: 'sometimes' },
])(
	'many contacts, with faults, restarts and limits in every run, equal those of a portal whose lists return %j',
	async (lists) => {
		// Reading each contact takes five times the operating time that the portal allows in ten minutes.
		const sync = await startSync({ lists, operatingSecondsPerCall: { 'crm.item.get': 2500 / contacts } });
		onTestFinished(async () => {
			await sync.close();
			await emptyMirror();
		});
		const { standIn, clock } = sync;
		/** The fields of the contact with this ID. */
		const truth = new Map<number, number>();
		const add = (n: number) => truth.set(standIn.add(makeContact(n)).id, n);
		const change = (id: number, n: number, touch: boolean) => {
			standIn.update(id, makeContact(n), { touch });
			truth.set(id, n);
		};
		const remove = (id: number) => {
			standIn.remove(id);
			truth.delete(id);
		};
		const isEqual = async () => {
			const rows: ExpectedRow[] = [...truth].map(([id, n]) => expectedRow(id, n));
			expect(await readMirror()).toEqual(rows.sort((a, b) => a.bitrix_id - b.bitrix_id));
		};
		standIn.onRequest(({ number }) => {
			const fault = faults[Math.floor(number / 19) % faults.length];
			if (number % 19 === 0 && fault !== undefined) standIn.faults.next(fault);
		});
		for (let n = 1; n <= contacts; n++) add(n);
		clock.advance(3_600_000);
		const begun = clock.now();

		await untilDone(sync, () => sync.synchroniser.pass());
		await isEqual();
		const minutes = Math.round((clock.now() - begun) / 60_000);
		console.log(
			`${JSON.stringify(lists)}: a full run takes ${standIn.requests.length} requests and ${minutes} minutes`,
		);

		clock.advance(3_600_000);
		const ids = [...truth.keys()];
		for (const [index, id] of ids.slice(0, contacts * 0.2).entries()) change(id, contacts + index, true);
		for (let n = 1; n <= 100; n++) add(2 * contacts + n);
		await untilDone(sync, () => sync.synchroniser.pass());
		await isEqual();

		clock.advance(3_600_000);
		const changed = ids.slice(contacts * 0.2, contacts * 0.25);
		for (const [index, id] of changed.entries()) change(id, 3 * contacts + index, false);
		for (const id of changed.slice(0, contacts * 0.005)) remove(id);
		await database.sql`
			insert into crm_event_inbox (bitrix_id, event)
			select json_array_elements_text(${JSON.stringify(changed)}::text::json)::bigint, 'ONCRMCONTACTUPDATE'`;
		await untilDone(sync, () => sync.synchroniser.events());
		await isEqual();

		clock.advance(3_600_000);
		for (const id of ids.slice(contacts * 0.3, contacts * 0.31)) remove(id);
		for (const [index, id] of ids.slice(contacts * 0.31, contacts * 0.33).entries())
			change(id, 4 * contacts + index, false);
		let full = true;
		await untilDone(sync, () => {
			const run = sync.synchroniser.pass({ full });
			full = false;
			return run;
		});
		await isEqual();
		if (Object.keys(lists).length > 0) expect(standIn.blockedOperations).toBeGreaterThan(0);
		expect(standIn.blockedRequests).toBe(0);
		expect(standIn.highestRequestCount).toBeLessThanOrEqual(50);
	},
	30_000 + contacts * 20,
);
