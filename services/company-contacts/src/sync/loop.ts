import { Bitrix24Error } from './bitrix24/errors.js';
import { readInbox } from './inbox.sql.js';
import { ConfigurationDiffersError, configurationDiffers } from './mirror-configuration.js';
import { createRequestDesk } from './requests.js';
import { openSession, type Session, SessionLost } from './session.js';
import { readState, saveBlock } from './sync.sql.js';
import { circuitPause, createSynchroniser, type Synchroniser, type SynchroniserOptions } from './synchroniser.js';

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
	/**
	 * Called once when the mirror was made with another configuration than this one's. It changes nothing then and leaves the
	 * lock to others, but goes on trying: somebody may agree to this configuration, or bring the other one back.
	 */
	onRefused(error: ConfigurationDiffersError): void;
	/** Called after each pass. */
	onPass?(outcome: 'done' | 'failed'): void;
}

/** Milliseconds between two looks at the inbox and at the requests of commands. */
const inboxEvery = 1000;

/** Milliseconds between two attempts to reach the database, or to get the lock. */
const retryEvery = 1000;

/** Synchronises until the signal comes. It ends with nothing that a portal or a database does. */
export async function synchroniseForEver(options: LoopOptions): Promise<void> {
	const { signal, clock, logger, onWaiting } = options;
	let waiting = false;
	let refused = false;
	while (!signal.aborted) {
		try {
			const session = await openSession(options.databaseUrl);
			if (session === undefined) {
				if (!waiting) onWaiting();
				waiting = true;
				refused = false;
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
				if (!refused) options.onRefused(error);
				refused = true;
			} else {
				refused = false;
				logger.error({ err: error }, 'the synchroniser starts again');
			}
		}
		await clock.sleep(retryEvery, signal).catch(() => undefined);
	}
}

async function work(options: SynchroniserOptions & LoopOptions): Promise<void> {
	const { session, clock, signal, logger, interval } = options;
	const desk = createRequestDesk(options);
	const synchroniser = await createSynchroniser({ ...options, onProgress: desk.onProgress });
	await adoptConfiguration(synchroniser, session);
	options.onWorking();
	let nextPass = 0;
	while (!signal.aborted) {
		// Somebody who asks has perhaps just settled what blocks the passes.
		const served = await desk.serveNext(synchroniser);
		if (served !== undefined) {
			if (served.kind === 'pass' || served.kind === 'full') {
				if (served.isDone) nextPass = clock.now() + interval;
				options.onPass?.(served.isDone ? 'done' : 'failed');
			}
			continue;
		}
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
				// What may pass by itself is tried again soon, from the cursor. A pass that brought too little begins from the
				// start: that would be a load without end.
				const soon = error instanceof Bitrix24Error ? Math.min(interval, 60_000) : circuitPause;
				nextPass = clock.now() + soon;
			}
		}
		await clock.sleep(inboxEvery, signal);
	}
}

/** @throws ConfigurationDiffersError after it was noted for everybody who looks why nothing is synchronised */
async function adoptConfiguration(synchroniser: Synchroniser, session: Session): Promise<void> {
	try {
		await synchroniser.adoptConfiguration();
	} catch (error) {
		const { blocked_by: blockedBy } = await session.run(readState);
		// What the portal has said stays: it holds for every configuration.
		if (error instanceof ConfigurationDiffersError && blockedBy === null)
			await session.run((sql) => saveBlock(sql, configurationDiffers, null));
		throw error;
	}
}
