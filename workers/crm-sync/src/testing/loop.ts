import { urlAs } from '@contacts/common/database/roles.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { type StandIn, type StandInOptions, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database } from '@contacts/testing/test.js';
import { toCrmConfig } from '../config.js';
import { synchronise } from '../loop.js';

/** A stand-in portal, and a synchroniser that passes every five minutes of a clock that moves when the synchroniser sleeps. */
interface LoopHarness {
	standIn: StandIn;
	clock: { now(): number; setBack(milliseconds: number): void };
	/** @param onPass called after each pass */
	start(onPass?: (outcome: 'done' | 'failed') => void): void;
	close(): Promise<void>;
}

export async function createLoop(options: StandInOptions = {}): Promise<LoopHarness> {
	let time = Date.now();
	const clock = {
		now: () => time,
		setBack(milliseconds: number) {
			time -= milliseconds;
		},
		async sleep(milliseconds: number, signal?: AbortSignal) {
			signal?.throwIfAborted();
			// In long steps: the loop checks for work every second.
			time += Math.max(milliseconds, 30_000);
		},
	};
	const standIn = await startStandIn({ plan: 'enterprise', clock: clock.now, ...options });
	const config = toCrmConfig({
		BITRIX24_WEBHOOK_URL: standIn.webhookUrl,
		BITRIX24_PLAN: 'enterprise',
		BITRIX24_INTERVAL_SECONDS: 300,
	});
	const stop = new AbortController();
	let loop: Promise<void> | undefined;
	return {
		standIn,
		clock,
		start(onPass) {
			loop = synchronise({
				databaseUrl: urlAs(database.url, 'crm-sync', rolePassword),
				config,
				clock,
				logger: createLogger({ name: 'sync', level: 'silent' }),
				signal: stop.signal,
				onWaiting: () => undefined,
				onWorking: () => undefined,
				onConfigurationDiffers: () => undefined,
				...(onPass === undefined ? {} : { onPass }),
			});
		},
		async close() {
			stop.abort();
			await loop;
			await standIn.close();
		},
	};
}
