import { Bitrix24Error } from './bitrix24/errors.js';
import { readInbox } from './inbox.sql.js';
import { IncompletePass } from './pass.js';
import { openSession, SessionLost } from './session.js';
import { readState } from './sync.sql.js';
import { circuitPause, createSynchroniser, type SynchroniserOptions } from './synchroniser.js';

export interface LoopOptions extends Omit<SynchroniserOptions, 'session'> {
	/** Of a role that may synchronise. */
	databaseUrl: string;
	/** Milliseconds between two passes. */
	interval: number;
	signal: AbortSignal;
	/** Called once when another synchroniser works; this one goes on trying, to take over when that one ends. */
	onWaiting(): void;
	/** Called whenever this one begins to work. */
	onWorking(): void;
	/** Called after each pass. */
	onPass?(outcome: 'done' | 'failed'): void;
}

/** Milliseconds between two looks at the inbox. */
const inboxEvery = 1000;

/** Milliseconds between two attempts to reach the database, or to get the lock. */
const retryEvery = 1000;

/** Synchronises until the signal comes. It ends with nothing that a portal or a database does. */
export async function synchroniseForEver(options: LoopOptions): Promise<void> {
	const { signal, clock, logger, onWaiting, onWorking } = options;
	let waiting = false;
	while (!signal.aborted) {
		try {
			const session = await openSession(options.databaseUrl);
			if (session === undefined) {
				if (!waiting) onWaiting();
				waiting = true;
			} else {
				waiting = false;
				onWorking();
				try {
					await work({ ...options, session });
				} finally {
					await session.close();
				}
			}
		} catch (error) {
			if (signal.aborted) return;
			logger.error({ err: error }, 'the synchroniser begins anew');
		}
		await clock.sleep(retryEvery, signal).catch(() => undefined);
	}
}

async function work(options: SynchroniserOptions & LoopOptions): Promise<void> {
	const { session, clock, signal, logger, interval } = options;
	const synchroniser = await createSynchroniser(options);
	let nextPass = 0;
	while (!signal.aborted) {
		const state = await session.run(readState);
		// After a restart too: what was refused a minute ago is not asked for again.
		const closedUntil = state.blocked_by === null ? 0 : (state.blocked_until ?? 0);
		if (clock.now() >= closedUntil) {
			try {
				if (clock.now() >= nextPass) {
					nextPass = clock.now() + interval;
					const outcome = await synchroniser.pass();
					logger.info(outcome, 'pass done');
					options.onPass?.('done');
				}
				if ((await session.run((sql) => readInbox(sql, 1, clock.now()))).length > 0)
					logger.info(await synchroniser.events(), 'events done');
			} catch (error) {
				if (error instanceof SessionLost || signal.aborted) throw error;
				logger.error({ err: error }, 'pass failed');
				options.onPass?.('failed');
				// What may pass by itself is tried again soon, from the cursor.
				const soon =
					error instanceof Bitrix24Error || error instanceof IncompletePass ? Math.min(interval, 60_000) : circuitPause;
				nextPass = clock.now() + soon;
			}
		}
		await clock.sleep(inboxEvery, signal);
	}
}
