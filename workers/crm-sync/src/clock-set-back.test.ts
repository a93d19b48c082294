import { database, test } from '@contacts/testing/test.js';
import { beforeEach, expect, onTestFinished, vi } from 'vitest';
import { storeEvent } from './inbox.sql.js';
import { createLoop } from './testing/loop.js';
import { emptyMirror, makeContact, startSync } from './testing/portal.js';

const day = 86_400_000;

// Not `afterEach`, which runs before `onTestFinished` stops the synchroniser.
beforeEach(emptyMirror);

test.each([
	['after a successful pass', undefined],
	['while the portal blocks it', 'INVALID_CREDENTIALS'],
	['while the portal pauses its method', 'OPERATION_TIME_LIMIT'],
])('the synchroniser makes its next pass in time when its clock is set back by a day %s', async (_, code) => {
	const { standIn, clock, start, close } = await createLoop();
	onTestFinished(close);
	standIn.add(makeContact(1));
	if (code !== undefined) standIn.faults.always({ kind: 'error', code });
	const passes: number[] = [];
	start(() => {
		if (passes.length === 0) clock.setBack(day);
		passes.push(clock.now());
	});
	await vi.waitUntil(() => passes.length >= 2, { timeout: 50_000 });
	const [first = 0, second = 0] = passes;
	expect(second - first).toBeLessThanOrEqual(15 * 60_000);
});

test('a full pass is due where the last one lies in the future', async () => {
	const sync = await startSync();
	try {
		await sync.synchroniser.pass();
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental' });
		await database.sql`update crm_sync_state set last_full_at = now() + interval '2 days'`;
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full' });
	} finally {
		await sync.close();
	}
});

test('an event that arrives while its contact is read is kept, although the database’s clock was set back', async () => {
	const sync = await startSync();
	try {
		const { id } = sync.standIn.add(makeContact(1));
		await database.sql`
			insert into crm_event_inbox (bitrix_id, event, received_at)
			values (${id}, 'ONCRMCONTACTADD', now() + interval '1 hour')`;
		let reads = 0;
		sync.standIn.onRequest(async ({ method }) => {
			if (method === 'batch' && ++reads === 1) await storeEvent(database.sql, id, 'ONCRMCONTACTUPDATE');
		});
		await sync.synchroniser.events();
		expect(reads).toBe(2);
		expect(await database.sql`select from crm_event_inbox`).toHaveLength(0);
	} finally {
		await sync.close();
	}
});
