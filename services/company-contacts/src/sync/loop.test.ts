import { startStandIn } from '@contacts/bitrix24-stand-in';
import { urlAs } from '@contacts/common/database/roles.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { readVariables } from '@contacts/common/process/config.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { expect, vi } from 'vitest';
import { crmVariables, toCrmConfig } from './config.js';
import { synchroniseForEver } from './loop.js';
import { makeContact } from './testing/portal.js';

test('an incomplete full pass is repeated after ten minutes, not at once', async () => {
	let time = Date.now();
	const clock = {
		now: () => time,
		async sleep(milliseconds: number, signal?: AbortSignal) {
			signal?.throwIfAborted();
			// In long steps: the loop checks for work every second.
			time += Math.max(milliseconds, 30_000);
		},
	};
	const standIn = await startStandIn({ plan: 'enterprise', clock: clock.now });
	for (let n = 1; n <= 120; n++) standIn.add(makeContact(n));
	standIn.faults.always({ kind: 'empty-list' }, { when: ({ params }) => Number(params.filter?.['>id']) > 40 });
	const begun: number[] = [];
	standIn.onRequest(({ params }) => {
		if (params.filter?.['>id'] === 0) begun.push(time);
	});
	const config = toCrmConfig(
		readVariables(crmVariables, { BITRIX24_WEBHOOK_URL: standIn.webhookUrl, BITRIX24_PLAN: 'enterprise' }),
	);
	if (Array.isArray(config)) throw new Error(config.join());
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
	});
	try {
		await vi.waitUntil(() => begun.length >= 4, { timeout: 50_000 });
		const [first = 0, ...others] = begun;
		for (const [index, at] of others.entries()) expect(at - (begun[index] ?? first)).toBeGreaterThanOrEqual(600_000);
		expect(await database.sql`select from company_contacts`).toHaveLength(0);
	} finally {
		stop.abort();
		await loop;
		await standIn.close();
	}
});
