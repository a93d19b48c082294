import type { LockHolder } from '@contacts/common/database/advisory-lock.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { Bitrix24Error, maxPauseMs } from './bitrix24/errors.js';
import {
	ConfigurationDiffersError,
	configurationDiffers,
	mirrorConfiguration,
	requireConfirmed,
} from './mirror/configuration.js';
import { hasDueEvents } from './mirror/inbox.sql.js';
import { takeRequest } from './mirror/requests.sql.js';
import { openSession, type Session, SessionLostError } from './mirror/session.js';
import { findLockHolder } from './mirror/session.sql.js';
import { readState, saveBlock } from './mirror/state.sql.js';
import { readUnreadablePhones } from './mirror/unreadable-phones.sql.js';
import { circuitBreakMs, createSynchroniser, type SynchroniserOptions } from './synchroniser.js';

interface LoopOptions extends Omit<SynchroniserOptions, 'session'> {
	/** Connects with the synchroniser's role. */
	databaseUrl: string;
	signal: AbortSignal;
	/**
	 * Called for each session that holds the lock; undefined: it has just ended. This synchroniser keeps trying, and takes over
	 * when the lock is free.
	 */
	onWaiting?(holder: LockHolder | undefined): void;
	/** Called when this synchroniser starts to work. */
	onWorking?(): void;
	/**
	 * Called once while the mirror belongs to another configuration. The synchroniser then changes nothing and leaves the lock to
	 * others. It keeps trying: somebody may confirm this configuration, or restore the other one.
	 */
	onConfigurationDiffers(error: ConfigurationDiffersError): void;
	/** Called with the error of each attempt to begin that fails. It tries again. */
	onBeginError?(error: unknown): void;
	/** Called after each run. */
	onRun?(outcome: 'done' | 'failed'): void;
	/** Called with the error of each run that fails. */
	onRunError?(error: unknown): void;
}

/** How often the loop reads the inbox and the requests of commands. */
const inboxIntervalMs = 1000;

/** Time between two attempts to reach the database or to acquire the lock. */
const retryIntervalMs = 1000;

/** The same on a server that is read-only: it grows up to this. */
const maxRetryIntervalMs = 30_000;

/** A run that failed continues from its cursor after this time. */
const runRetryMs = 60_000;

/**
 * Synchronises until the signal is aborted, on one session: whatever it knew may be wrong without the lock. No error of the
 * CRM ends it, and nothing before it has begun to work.
 *
 * @throws SessionLostError, or what else the database has refused: let the process end, and start another one
 */
export async function synchronise(options: LoopOptions): Promise<void> {
	const { signal, clock, logger } = options;
	/** The server process of the holder that was reported. */
	let reportedPid: number | undefined;
	let differs = false;
	let readOnlyMs = retryIntervalMs;
	function onHeld(holder: LockHolder | undefined): void {
		if (holder?.pid !== reportedPid) options.onWaiting?.(holder);
		reportedPid = holder?.pid;
	}
	while (!signal.aborted) {
		let retryMs = retryIntervalMs;
		let session: Session | undefined;
		try {
			session = await openSession(options.databaseUrl, onHeld, (sql) => blockUnlessConfirmed(sql, options));
			differs = false;
		} catch (error) {
			if (error instanceof ConfigurationDiffersError) {
				if (!differs) options.onConfigurationDiffers(error);
				differs = true;
			} else {
				if (error instanceof SessionLostError && error.isReadOnly) {
					retryMs = readOnlyMs;
					readOnlyMs = Math.min(2 * readOnlyMs, maxRetryIntervalMs);
				}
				logger.error({ err: error, retry_ms: retryMs }, 'the synchroniser can’t begin: it tries again');
				options.onBeginError?.(error);
			}
		}
		try {
			if (session !== undefined) await work({ ...options, session });
		} catch (error) {
			// The next attempt to begin says so.
			if (!signal.aborted && !(error instanceof ConfigurationDiffersError)) throw error;
		} finally {
			await session?.close().catch(() => undefined);
		}
		await clock.sleep(retryMs, signal).catch(() => undefined);
	}
}

/** Before the lock is taken: a synchroniser with another configuration never holds it. @throws ConfigurationDiffersError */
async function blockUnlessConfirmed(sql: Sql, { config, remap }: LoopOptions): Promise<void> {
	if (remap) return;
	const { configuration, blocked_by: blockedBy } = await readState(sql);
	try {
		requireConfirmed(configuration, mirrorConfiguration(config));
	} catch (error) {
		// A block by the CRM stays: it applies to every configuration. And a synchroniser that works is not blocked.
		if (blockedBy === null && (await findLockHolder(sql)) === undefined)
			await saveBlock(sql, { code: configurationDiffers });
		throw error;
	}
}

async function work(options: SynchroniserOptions & LoopOptions): Promise<void> {
	const { session, clock, signal, logger } = options;
	const { intervalMs } = options.config;
	const synchroniser = await createSynchroniser(options);
	options.onWorking?.();
	// At once: what has changed since the last run began may have had events that nobody received.
	let [nextRun, nextEvents] = [0, 0];
	// A time further ahead was set before the clock was set back.
	const maxDelayMs = Math.max(intervalMs, circuitBreakMs, maxPauseMs);
	const isDue = (time: number) => clock.now() >= time || time - clock.now() > maxDelayMs;

	/** @returns when to try again, if this attempt failed. Events that fail delay no run, and vice versa. */
	async function attempt(work: () => Promise<void>): Promise<number | undefined> {
		try {
			return void (await work());
		} catch (error) {
			if (error instanceof SessionLostError || error instanceof ConfigurationDiffersError || signal.aborted)
				throw error;
			logger.error({ err: error }, 'run failed');
			options.onRun?.('failed');
			options.onRunError?.(error);
			// An incomplete run starts over: retrying soon would load the CRM endlessly.
			return clock.now() + (error instanceof Bitrix24Error ? Math.min(intervalMs, runRetryMs) : circuitBreakMs);
		}
	}
	async function run(request: { full?: boolean; requestedAt?: string } = {}): Promise<void> {
		nextRun = clock.now() + intervalMs;
		const retryAt = await attempt(async () => {
			const result = await synchroniser.run(request);
			logger.info({ ...result, unreadablePhones: await session.run(readUnreadablePhones) }, 'run done');
			options.onRun?.('done');
		});
		nextRun = retryAt ?? nextRun;
	}
	async function handleEvents(): Promise<void> {
		try {
			logger.info(await synchroniser.events(), 'events done');
		} catch (error) {
			if (!(error instanceof Bitrix24Error) || error.until === undefined) throw error;
			nextEvents = error.until;
			logger.warn({ method: error.method }, 'events wait for the end of a rate-limit pause');
		}
	}
	while (!signal.aborted) {
		const request = await session.run(takeRequest);
		const state = await session.run(readState);
		const hasEvents = await session.run((sql) => hasDueEvents(sql, clock.now()));
		// Also after a restart: do not repeat a request that the CRM has just refused, unless somebody requests it.
		const isFree = isDue(state.blocked_until ?? 0);
		if (request !== undefined) {
			await run({ full: request.kind === 'full', requestedAt: request.requestedAt });
		} else if (isFree && isDue(nextRun)) {
			await run();
		} else if (isFree && isDue(nextEvents) && hasEvents) {
			nextEvents = (await attempt(handleEvents)) ?? nextEvents;
		}
		await clock.sleep(inboxIntervalMs, signal);
	}
}
