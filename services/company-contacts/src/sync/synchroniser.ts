import type { FastifyBaseLogger } from 'fastify';
import { Bitrix24Error } from './bitrix24/errors.js';
import { openPortal, type Portal } from './bitrix24/portal.js';
import { createRestClient, type RestClient } from './bitrix24/rest-client.js';
import type { Clock } from './clock.js';
import type { CrmConfig } from './config.js';
import { fullPass } from './full-pass.js';
import { closeInterruptedRuns, prune } from './housekeeping.sql.js';
import type { Unmapped } from './mapping.js';
import {
	ConfigurationDiffersError,
	configurationDiffers,
	differencesOf,
	mirrorConfiguration,
	needsFullPass,
} from './mirror-configuration.js';
import { saveConfiguration } from './mirror-configuration.sql.js';
import { dryRun, handleEvents, incrementalPass, readAgain } from './other-passes.js';
import type { PassContext, PassCounts, UnreadBy } from './pass.js';
import type { Session } from './session.js';
import { beginRun, discardFull, endRun, type RunKind, readState, saveBlock, saveBucket } from './sync.sql.js';

export interface SynchroniserOptions {
	config: CrmConfig;
	session: Session;
	clock: Clock;
	logger: FastifyBaseLogger;
	signal?: AbortSignal;
	/** Somebody has agreed to read every contact again with this configuration, if the mirror was made with another. */
	remap?: boolean;
	/** Milliseconds within which an answer of the portal must be there. */
	timeout?: number;
	onProgress?: (seen: number, total: number | undefined) => void;
	onUnmapped?: (what: Unmapped) => void;
	onUnread?: (pass: UnreadBy, contacts: number) => void;
	onPortalError?: (error: Bitrix24Error) => void;
}

/** What one piece of work did. */
export interface Outcome extends PassCounts {
	kind: RunKind;
	requests: number;
}

/** Whatever writes throws ConfigurationDiffersError where the mirror was made with another configuration. */
export interface Synchroniser {
	/** Makes this configuration the mirror's, if it is not. What was staged and read up to now is discarded then. */
	adoptConfiguration(): Promise<void>;
	/** A full pass, from the start, if one is asked for; one that is due or unfinished; an incremental one else. */
	pass(options?: { full?: boolean; confirmMassDelete?: boolean }): Promise<Outcome>;
	/** Whether a full pass is due or unfinished. */
	fullIsDue(): Promise<boolean>;
	events(): Promise<Outcome>;
	contact(id: number): Promise<Outcome>;
	dryRun(): Promise<Outcome>;
}

/** A full pass is due so many milliseconds after the last. It alone finds deletions, merges and changed links for certain. */
const fullEvery = 24 * 3_600_000;

/** How long nothing is tried after an error that somebody has to settle, in milliseconds. */
export const circuitPause = 600_000;

/** The custom fields are looked at anew after so many milliseconds. */
const portalAge = 3_600_000;

/** The longest that a pass waits for a method that has used up its time, in milliseconds. */
const longestHold = 660_000;

/** Keeps the mirror equal to the portal's contacts, on the session that holds the lock. */
export async function createSynchroniser(options: SynchroniserOptions): Promise<Synchroniser> {
	const { config, session, clock, logger, signal } = options;
	const { bucket_arrival: arrival } = await session.run(readState);
	await session.run(closeInterruptedRuns);
	const client: RestClient = createRestClient({
		webhookUrl: config.webhookUrl,
		policy: config.policy,
		clock,
		arrival,
		// Before the request and not after it: a process that is killed must not forget what it has asked for.
		onSpend: (spent) => session.run((sql) => saveBucket(sql, spent)),
		...(signal ? { signal } : {}),
		...(options.timeout === undefined ? {} : { timeout: options.timeout }),
		onError(error) {
			logger.warn(
				{ method: error.method, code: error.code, kind: error.kind },
				'the portal did not answer as it should',
			);
			options.onPortalError?.(error);
		},
	});
	let opened: { portal: Portal; at: number } | undefined;
	let isAdopted = false;

	async function adoptConfiguration(): Promise<void> {
		// Nobody else changes it while this one holds the lock.
		if (isAdopted) return;
		const own = mirrorConfiguration(config);
		const { configuration: stored, blocked_by: blockedBy } = await session.run(readState);
		const differences = stored === null || options.remap ? [] : differencesOf(stored, own);
		if (differences.length > 0) throw new ConfigurationDiffersError(differences);
		if (needsFullPass(stored, own)) {
			logger.warn({ stored, own }, 'the mirror gets another configuration: every contact is read again');
			await session.run((sql) => saveConfiguration(sql, own));
		}
		if (blockedBy === configurationDiffers) await session.run((sql) => saveBlock(sql, null, null));
		isAdopted = true;
	}

	async function context(): Promise<PassContext> {
		if (opened === undefined || clock.now() - opened.at > portalAge) {
			opened = { portal: await openPortal(client, config.codes), at: clock.now() };
		}
		const { onProgress = () => undefined, onUnmapped = () => undefined, onUnread = () => undefined } = options;
		const { portal } = opened;
		return { portal, client, session, mapping: config.mapping, clock, logger, onProgress, onUnmapped, onUnread };
	}

	/** Runs a piece of work, with a row in the log of runs, and notes what keeps it from working. */
	async function record(kind: RunKind, work: (context: PassContext) => Promise<PassCounts>): Promise<Outcome> {
		await adoptConfiguration();
		const run = await session.run((sql) => beginRun(sql, kind));
		if (kind === 'full' || kind === 'incremental') await session.run(prune);
		const before = client.requests;
		let counts: PassCounts = { seen: 0, created: 0, changed: 0, deleted: 0 };
		let outcome = 'failed';
		try {
			counts = await throughHolds(async () => work(await context()));
			outcome = 'done';
			return { kind, ...counts, requests: client.requests - before };
		} catch (error) {
			if (error instanceof Bitrix24Error) {
				outcome = error.code;
				// A portal that changed its fields, or its mind, is looked at anew.
				opened = undefined;
				const until =
					error.until ?? (error.kind === 'stop' || error.kind === 'access_denied' ? clock.now() + circuitPause : null);
				await session.run((sql) => saveBlock(sql, error.code, until));
			} else if (error instanceof Error) {
				outcome = error.name;
			}
			throw error;
		} finally {
			await session
				.run(async (sql) => {
					await endRun(sql, run, outcome, { ...counts, requests: client.requests - before });
					await saveBucket(sql, client.arrival);
				})
				.catch(() => undefined);
		}
	}

	/** A method that has used up its time comes back by itself: the work goes on from its cursor then. */
	async function throughHolds<T>(work: () => Promise<T>): Promise<T> {
		const begun = clock.now();
		for (let waited = false; ; waited = true) {
			try {
				const result = await work();
				// What was waited for blocks nothing any more; a block of another kind of work stays.
				if (waited) await session.run((sql) => saveBlock(sql, null, null));
				return result;
			} catch (error) {
				if (!(error instanceof Bitrix24Error) || error.kind !== 'hold' || error.until === undefined) throw error;
				const { code, until } = error;
				if (until - begun > longestHold) throw error;
				await session.run((sql) => saveBlock(sql, code, until));
				logger.warn(
					{ method: error.method, until: new Date(until).toISOString() },
					'waiting until the portal lets this method be called again',
				);
				await clock.sleep(Math.max(0, until - clock.now()), signal);
			}
		}
	}

	async function fullIsDue(): Promise<boolean> {
		const state = await session.run(readState);
		return (
			state.watermark === null || state.full_begun_at !== null || clock.now() - (state.last_full_at ?? 0) > fullEvery
		);
	}

	return {
		adoptConfiguration,
		fullIsDue,
		async pass({ full = false, confirmMassDelete = false } = {}) {
			await adoptConfiguration();
			// Once, and not after each wait for a method: the pass goes on from its cursor then.
			if (full) await session.run(discardFull);
			const { watermark } = await session.run(readState);
			if (full || watermark === null || (await fullIsDue()))
				return record('full', (each) => fullPass(each, confirmMassDelete));
			return record('incremental', (each) => incrementalPass(each, watermark));
		},
		events: () => record('events', handleEvents),
		contact: (id) => record('contact', (each) => readAgain(each, [id])),
		async dryRun() {
			const before = client.requests;
			const counts = await throughHolds(async () => dryRun(await context()));
			return { kind: 'full', ...counts, requests: client.requests - before };
		},
	};
}
