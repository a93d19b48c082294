import { database, test } from '@contacts/testing/test.js';
import { afterEach, beforeEach, expect } from 'vitest';
import { toCrmConfig } from './config.js';
import { emptyMirror, makeContact, type SyncHarness, startSync } from './testing/portal.js';

const hour = 3_600_000;
let sync: SyncHarness;

beforeEach(async () => {
	sync = await startSync();
	for (let n = 1; n <= 60; n++) sync.standIn.add(makeContact(n));
});
afterEach(async () => {
	await sync.close();
	await emptyMirror();
});

test('with an interval of a day, each pass is a full pass', async () => {
	const config = toCrmConfig({
		BITRIX24_WEBHOOK_URL: sync.standIn.webhookUrl,
		BITRIX24_PLAN: 'standard',
		BITRIX24_INTERVAL_SECONDS: 86_400,
	});
	await sync.restart({ config });
	for (let day = 0; day < 3; day++) {
		const begun = sync.clock.now();
		expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full' });
		// The database has a real clock.
		await database.sql`update crm_sync_state set last_full_at = to_timestamp(${(begun + 1000) / 1000}::float8)`;
		sync.clock.advance(begun + config.intervalMs - sync.clock.now());
	}
});

test('with an interval of five minutes, the passes of a day are incremental', async () => {
	await sync.synchroniser.pass();
	sync.clock.advance(23 * hour);
	expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'incremental' });
	sync.clock.advance(2 * hour);
	expect(await sync.synchroniser.pass()).toMatchObject({ kind: 'full' });
});
