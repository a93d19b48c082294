import { startStandIn } from '@contacts/bitrix24-stand-in';
import { urlAs } from '@contacts/common/database/roles.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { readVariables } from '@contacts/common/process/config.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { afterEach, expect, vi } from 'vitest';
import { crmVariables, toCrmConfig } from './config.js';
import { storeEvent } from './inbox.sql.js';
import { synchroniseForEver } from './loop.js';
import { emptyMirror, makeContact, startSync } from './testing/portal.js';

const day = 86_400_000;

afterEach(emptyMirror);

test.each([
	['after a successful pass', undefined],
	['while the portal blocks it', 'INVALID_CREDENTIALS'],
	['while the portal pauses its method', 'OPERATION_TIME_LIMIT'],
])('the synchroniser makes its next pass in time when its clock is set back by a day %s', async (_, code) => {
	let time = Date.now();
	const clock = {
		now: () => time,
		async sleep(milliseconds: number, signal?: AbortSignal) {
			signal?.throwIfAborted();
			time += Math.max(milliseconds, 30_000);
		},
	};
	const standIn = await startStandIn({ plan: 'enterprise', clock: clock.now });
	standIn.add(makeContact(1));
	if (code !== undefined) standIn.faults.always({ kind: 'error', code });
	const config = toCrmConfig(readVariables(crmVariables, { BITRIX24_WEBHOOK_URL: standIn.webhookUrl }));
	if (Array.isArray(config)) throw new Error(config.join());
	const passes: number[] = [];
	const stop = new AbortController();
	const loop = synchroniseForEver({
		databaseUrl: urlAs(database.url, 'company-contacts-sync', rolePassword),
		config,
		intervalMs: 300_000,
		clock,
		logger: createLogger({ name: 'sync', level: 'silent' }),
		signal: stop.signal,
		onWaiting: () => undefined,
		onWorking: () => undefined,
		onConfigurationDiffers: () => undefined,
		onPass() {
			if (passes.length === 0) time -= day;
			passes.push(time);
		},
	});
	try {
		await vi.waitUntil(() => passes.length >= 2, { timeout: 50_000 });
		const [first = 0, second = 0] = passes;
		expect(second - first).toBeLessThanOrEqual(15 * 60_000);
	} finally {
		stop.abort();
		await loop;
		await standIn.close();
	}
});

test('a full pass is due where the last one lies in the future', async () => {
	const sync = await startSync();
	try {
		await sync.synchroniser.pass();
		expect(await sync.synchroniser.fullIsDue()).toBe(false);
		await database.sql`update crm_sync_state set last_full_at = now() + interval '2 days'`;
		expect(await sync.synchroniser.fullIsDue()).toBe(true);
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
