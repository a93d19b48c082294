import { Bitrix24Error } from './bitrix24/errors.js';
import { readInbox } from './inbox.sql.js';
import { ConfigurationDiffersError, configurationDiffers } from './mirror-configuration.js';
import { createRequestQueue } from './requests.js';
import { openSession, type Session, SessionLostError } from './session.js';
import type { LockHolder } from './session.sql.js';
import { readState, saveBlock } from './sync.sql.js';
import {
	circuitBreakMs,
	createSynchroniser,
	maxPauseMs,
	type Synchroniser,
	type SynchroniserOptions,
} from './synchroniser.js';

export interface LoopOptions extends Omit<SynchroniserOptions, 'session'> {
	/** Connects with the synchroniser's role. */
	databaseUrl: string;
	signal: AbortSignal;
	/**
	 * Called for each session that holds the lock; undefined: it has just ended. This synchroniser keeps trying, and takes over
	 * when the lock is free.
	 */
	onWaiting(holder: LockHolder | undefined): void;
	/** Called whenever this synchroniser starts to work. */
	onWorking(): void;
	/**
	 * Called once while the mirror belongs to another configuration. The synchroniser then changes nothing and leaves the lock to
	 * others. It keeps trying: somebody may confirm this configuration, or restore the other one.
	 */
	onConfigurationDiffers(error: ConfigurationDiffersError): void;
	/** Called after each pass. */
	onPass?(outcome: 'done' | 'failed'): void;
}

/** How often the loop reads the inbox and the requests of commands. */
const inboxIntervalMs = 1000;

/** Time between two attempts to reach the database or to acquire the lock. */
const retryIntervalMs = 1000;

/** Synchronises until the signal is aborted. No error of the portal or the database ends it. */
export async function synchroniseForEver(options: LoopOptions): Promise<void> {
	const { signal, clock, logger, onWaiting } = options;
	let waiting = false;
	let heldBy: LockHolder | undefined;
	let differs = false;
	while (!signal.aborted) {
		try {
			let holder: LockHolder | undefined;
			const session = await openSession(options.databaseUrl, (found) => {
				holder = found;
			});
			if (session === undefined) {
				if (!waiting || (holder !== undefined && holder.pid !== heldBy?.pid)) onWaiting(holder);
				heldBy = holder ?? heldBy;
				waiting = true;
				differs = false;
			} else {
				waiting = false;
				try {
					await work({ ...options, session });
				} finally {
					await session.close();
				}
			}
		} catch (error) {
			if (signal.aborted) return;
			if (error instanceof ConfigurationDiffersError) {
				if (!differs) options.onConfigurationDiffers(error);
				differs = true;
			} else {
				differs = false;
				logger.error({ err: error }, 'the synchroniser starts again');
			}
		}
		await clock.sleep(retryIntervalMs, signal).catch(() => undefined);
	}
}

async function work(options: SynchroniserOptions & LoopOptions): Promise<void> {
	const { session, clock, signal, logger } = options;
	const { intervalMs } = options.config;
	const requests = createRequestQueue(options);
	const synchroniser = await createSynchroniser({ ...options, onProgress: requests.onProgress });
	await adoptConfiguration(synchroniser, session);
	options.onWorking();
	let [nextPass, nextEvents] = [0, 0];
	// A time further ahead was set before the clock was set back.
	const maxDelayMs = Math.max(intervalMs, circuitBreakMs, maxPauseMs);
	const isDue = (time: number) => clock.now() >= time || time - clock.now() > maxDelayMs;
	/** @returns milliseconds until the next attempt, if this one failed. Events that fail delay no pass, and vice versa. */
	async function attempt(work: () => Promise<void>): Promise<number | undefined> {
		try {
			return void (await work());
		} catch (error) {
			if (error instanceof SessionLostError || signal.aborted) throw error;
			logger.error({ err: error }, 'pass failed');
			options.onPass?.('failed');
			// After an error of the portal a pass continues from its cursor, so it is retried soon. An incomplete pass starts over:
			// retrying soon would load the portal endlessly.
			return error instanceof Bitrix24Error ? Math.min(intervalMs, 60_000) : circuitBreakMs;
		}
	}
	async function handleEvents(): Promise<void> {
		try {
			logger.info(await synchroniser.events(), 'events done');
		} catch (error) {
			if (!(error instanceof Bitrix24Error) || error.kind !== 'pause' || error.until === undefined) throw error;
			nextEvents = error.until;
			const until = new Date(nextEvents).toISOString();
			logger.warn({ method: error.method, until }, 'events wait for the end of a rate-limit pause');
		}
	}
	while (!signal.aborted) {
		// Even while passes are blocked: the request may fix the problem.
		const served = await requests.serveNext(synchroniser);
		if (served !== undefined) {
			if (served.kind === 'pass' || served.kind === 'full') {
				if (served.isDone) nextPass = clock.now() + intervalMs;
				options.onPass?.(served.isDone ? 'done' : 'failed');
			}
			continue;
		}
		const state = await session.run(readState);
		// Also after a restart: do not repeat a request that the portal has just refused.
		const blockedUntil = state.blocked_by === null ? 0 : (state.blocked_until ?? 0);
		if (isDue(blockedUntil)) {
			if (isDue(nextPass)) {
				const begun = clock.now();
				const retryMs = await attempt(async () => {
					logger.info(await synchroniser.pass(), 'pass done');
					options.onPass?.('done');
				});
				nextPass = retryMs === undefined ? begun + intervalMs : clock.now() + retryMs;
			} else if (isDue(nextEvents) && (await session.run((sql) => readInbox(sql, 1, clock.now()))).length > 0) {
				const retryMs = await attempt(handleEvents);
				if (retryMs !== undefined) nextEvents = clock.now() + retryMs;
			}
		}
		await clock.sleep(inboxIntervalMs, signal);
	}
}

/** @throws ConfigurationDiffersError, which the state then shows as the reason of the block */
async function adoptConfiguration(synchroniser: Synchroniser, session: Session): Promise<void> {
	try {
		await synchroniser.adoptConfiguration();
	} catch (error) {
		const { blocked_by: blockedBy } = await session.run(readState);
		// A block by the portal stays: it applies to every configuration.
		if (error instanceof ConfigurationDiffersError && blockedBy === null)
			await session.run((sql) => saveBlock(sql, configurationDiffers, null));
		throw error;
	}
}
