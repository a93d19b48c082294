import { Bitrix24Error } from './bitrix24/errors.js';
import { readInboxState } from './inbox.sql.js';
import { ConfigurationDiffersError, configurationDiffers } from './mirror-configuration.js';
import { openSession, type Session, SessionLostError } from './session.js';
import type { LockHolder } from './session.sql.js';
import { readState, saveBlock, takeRequest } from './sync.sql.js';
import {
	circuitBreakMs,
	createSynchroniser,
	maxPauseMs,
	type Synchroniser,
	type SynchroniserOptions,
} from './synchroniser.js';

interface LoopOptions extends Omit<SynchroniserOptions, 'session'> {
	/** Connects with the synchroniser's role. */
	databaseUrl: string;
	signal: AbortSignal;
	/**
	 * Called for each session that holds the lock; undefined: it has just ended. This synchroniser keeps trying, and takes over
	 * when the lock is free.
	 */
	onWaiting(holder: LockHolder | undefined): void;
	/** Called when this synchroniser starts to work. */
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

/** The same on a server that is read-only: it grows up to this. */
const maxRetryIntervalMs = 30_000;

/**
 * Synchronises until the signal is aborted, on one session: whatever it knew may be wrong without the lock. No error of the
 * portal ends it, and nothing before it has begun to work.
 *
 * @throws SessionLostError, or what else the database has refused: let the process end, and start another one
 */
export async function synchronise(options: LoopOptions): Promise<void> {
	const { signal, clock, logger, onWaiting } = options;
	let heldBy: LockHolder | 'nobody' | undefined = 'nobody';
	let differs = false;
	let readOnlyMs = retryIntervalMs;
	while (!signal.aborted) {
		let retryMs = retryIntervalMs;
		let holder: LockHolder | undefined;
		const session = await openSession(options.databaseUrl, (found) => {
			holder = found;
		}).catch((error: unknown) => {
			if (error instanceof SessionLostError && error.isReadOnly) {
				retryMs = readOnlyMs;
				readOnlyMs = Math.min(2 * readOnlyMs, maxRetryIntervalMs);
			}
			logger.error({ err: error, retry_ms: retryMs }, 'the synchroniser can’t begin: it tries again');
			return error as Error;
		});
		if (session === undefined) {
			if (heldBy === 'nobody' || (holder !== undefined && holder.pid !== heldBy?.pid)) onWaiting(holder);
			heldBy = holder ?? (heldBy === 'nobody' ? undefined : heldBy);
			differs = false;
		} else if (!(session instanceof Error)) {
			heldBy = 'nobody';
			try {
				await work({ ...options, session });
			} catch (error) {
				if (signal.aborted) return;
				if (!(error instanceof ConfigurationDiffersError)) throw error;
				if (!differs) options.onConfigurationDiffers(error);
				differs = true;
			} finally {
				await session.close().catch(() => undefined);
			}
		}
		await clock.sleep(retryMs, signal).catch(() => undefined);
	}
}

async function work(options: SynchroniserOptions & LoopOptions): Promise<void> {
	const { session, clock, signal, logger } = options;
	const { intervalMs } = options.config;
	const synchroniser = await createSynchroniser(options);
	await adoptConfiguration(synchroniser, session);
	options.onWorking();
	// At once: what has changed since the last pass began may have had events that nobody received.
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
	async function pass(options_: { full?: boolean; requestedAt?: string } = {}): Promise<void> {
		const begun = clock.now();
		const retryMs = await attempt(async () => {
			logger.info(await synchroniser.pass(options_), 'pass done');
			options.onPass?.('done');
		});
		nextPass = retryMs === undefined ? begun + intervalMs : clock.now() + retryMs;
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
		const request = await session.run(takeRequest);
		const state = await session.run(readState);
		const inbox = await session.run((sql) => readInboxState(sql, clock.now()));
		// Also after a restart: do not repeat a request that the portal has just refused, unless somebody requests it.
		const isFree = isDue(state.blocked_by === null ? 0 : (state.blocked_until ?? 0));
		if (request !== undefined) {
			await pass({ full: request.kind === 'full', requestedAt: request.requestedAt });
		} else if (isFree && isDue(nextPass)) {
			await pass();
		} else if (isDue(nextEvents) && (inbox.requested || (isFree && inbox.due))) {
			const retryMs = await attempt(handleEvents);
			if (retryMs !== undefined) nextEvents = clock.now() + retryMs;
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
