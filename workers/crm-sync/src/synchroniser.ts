import type { FastifyBaseLogger } from 'fastify';
import type { Clock } from './bitrix24/clock.js';
import { Bitrix24Error } from './bitrix24/errors.js';
import { openPortal, type Portal } from './bitrix24/portal.js';
import { createRestClient, type RestClient } from './bitrix24/rest-client.js';
import type { CrmConfig } from './config.js';
import { eventsPass } from './events-pass.js';
import { fullPass } from './full-pass.js';
import { incrementalPass } from './incremental-pass.js';
import { missingTroubleOptions } from './mapping.js';
import {
	ConfigurationDiffersError,
	configurationDiffers,
	differencesOf,
	mirrorConfiguration,
	needsFullPass,
} from './mirror-configuration.js';
import { IncompletePassError, type PassContext, type PassCounts } from './pass.js';
import { allContacts, type Session } from './session.js';
import {
	beginRun,
	closeInterruptedRuns,
	discardFull,
	endRun,
	prune,
	type RunKind,
	readState,
	type SyncState,
	saveBlock,
	saveBucket,
	saveConfiguration,
	saveProgress,
} from './sync.sql.js';

export interface SynchroniserOptions extends Partial<Pick<PassContext, 'onProgress' | 'onUnmapped' | 'onUnread'>> {
	config: CrmConfig;
	session: Session;
	clock: Clock;
	logger: FastifyBaseLogger;
	signal?: AbortSignal;
	/** Assigns this configuration to the mirror if it has another one: every contact is then read again. */
	remap?: boolean;
	/** The timeout for each response of the portal. */
	responseTimeoutMs?: number;
	onPortalError?: (error: Bitrix24Error) => void;
}

/** The result of a pass. */
export interface Outcome extends PassCounts {
	kind: RunKind;
	requests: number;
}

/** Each pass that writes throws ConfigurationDiffersError if the mirror belongs to another configuration. */
export interface Synchroniser {
	/** Assigns this configuration to the mirror. If it is new, the full pass in progress is discarded. */
	adoptConfiguration(): Promise<void>;
	/**
	 * Runs a full pass from the start if `full`; else a full pass that is due or unfinished; else an incremental pass.
	 *
	 * @param request when a command has requested this pass. The mirror is then complete up to then: what has changed since an
	 *   unfinished full pass began is read too.
	 */
	pass(options?: { full?: boolean; requestedAt?: string }): Promise<Outcome>;
	/** @throws Bitrix24Error `pause`: events do not wait for the end of a rate-limit pause, so that passes and requests go on */
	events(): Promise<Outcome>;
}

/** Only a full pass finds every deletion, merge and changed link. */
const fullPassIntervalMs = 24 * 3_600_000;

/** After an error that somebody has to fix, no request is made for this long. */
export const circuitBreakMs = 600_000;

/** The custom fields are read again after this time. */
const fieldsMaxAgeMs = 3_600_000;

/** How often the run's row shows the progress. */
const progressIntervalMs = 1000;

/** Maximum wait for a method that has used up its operating time: the portal counts it over 10 minutes. */
export const maxPauseMs = 660_000;

const missingOptions = 'BITRIX24_TROUBLE_OPTIONS names options that the field BITRIX24_UF_TROUBLE does not have';

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
		// Before the request: a killed process must not forget the requests that it has sent.
		onRequest: (spent) => session.run((sql) => saveBucket(sql, spent)),
		...(signal ? { signal } : {}),
		...(options.responseTimeoutMs === undefined ? {} : { timeoutMs: options.responseTimeoutMs }),
		onError(error) {
			logger.warn({ method: error.method, code: error.code, kind: error.kind }, 'error of the portal');
			options.onPortalError?.(error);
		},
	});
	/** It is opened once: what it has found out about its lists holds as long as the process. */
	let portal: Portal | undefined;
	let fieldsReadAt = Number.NEGATIVE_INFINITY;
	let isAdopted = false;
	/** The contacts that the current pass has read, and since when it waits for the next ones. */
	let read = 0;
	let waitsSince: number | undefined;
	let progressSavedAt = Number.NEGATIVE_INFINITY;

	async function adoptConfiguration(): Promise<void> {
		// Nobody else changes it while this synchroniser holds the lock.
		if (isAdopted) return;
		const own = mirrorConfiguration(config);
		const { configuration: stored, blocked_by: blockedBy } = await session.run(readState);
		const differences = stored === null || options.remap ? [] : differencesOf(stored, own);
		if (differences.length > 0) throw new ConfigurationDiffersError(differences);
		if (needsFullPass(stored, own)) {
			if (stored === null) logger.info({ own }, 'first run: every contact is read');
			else logger.warn({ stored, own }, 'the mirror gets another configuration: every contact is read again');
			await session.run((sql) => saveConfiguration(sql, own), allContacts);
		}
		if (blockedBy === configurationDiffers) await session.run((sql) => saveBlock(sql, null, null));
		isAdopted = true;
	}

	async function context(runId: number): Promise<PassContext> {
		if (portal === undefined || clock.now() - fieldsReadAt > fieldsMaxAgeMs) {
			if (portal === undefined) portal = await openPortal(client, config.codes);
			else await portal.refreshFields();
			fieldsReadAt = clock.now();
			const options = missingTroubleOptions(portal.fields(), config.mapping);
			if (options.length > 0) logger.warn({ options }, missingOptions);
		}
		const { onUnmapped = () => undefined, onUnread = () => undefined } = options;
		const onProgress: PassContext['onProgress'] = (seen, total) => {
			if (seen > read) [read, waitsSince] = [seen, undefined];
			options.onProgress?.(seen, total);
			if (clock.now() - progressSavedAt < progressIntervalMs) return;
			progressSavedAt = clock.now();
			// Not critical: the pass itself notices a lost connection.
			session.run((sql) => saveProgress(sql, runId, seen, total)).catch(() => undefined);
		};
		return { portal, session, mapping: config.mapping, clock, logger, runId, onProgress, onUnmapped, onUnread };
	}

	/** Runs a pass. Records it in the log of runs, and stores the reason if the synchroniser is blocked. */
	async function run(
		kind: RunKind,
		requestedAt: string | undefined,
		pass: (context: PassContext) => Promise<PassCounts>,
	): Promise<Outcome> {
		await adoptConfiguration();
		const runId = await session.run((sql) => beginRun(sql, kind, requestedAt ?? null));
		if (kind !== 'events') await session.run(prune, allContacts);
		const before = client.requests;
		let counts: PassCounts = { seen: 0, created: 0, changed: 0, deleted: 0 };
		let incomplete = 0;
		let outcome = 'failed';
		try {
			const begin = async () => pass(await context(runId));
			counts = await (kind === 'events' ? begin() : throughPauses(begin));
			outcome = counts.isHeld ? 'held' : 'done';
			return { kind, ...counts, requests: client.requests - before };
		} catch (error) {
			if (error instanceof IncompletePassError) {
				outcome = 'incomplete';
				incomplete = error.contacts;
			} else if (error instanceof Bitrix24Error) {
				outcome = error.code;
				if (kind === 'events' && error.kind === 'pause') throw error;
				// The fields of the portal may have changed.
				fieldsReadAt = Number.NEGATIVE_INFINITY;
				const until =
					error.until ??
					(error.kind === 'stop' || error.kind === 'access_denied' ? clock.now() + circuitBreakMs : null);
				await session.run((sql) => saveBlock(sql, error.code, until));
			}
			throw error;
		} finally {
			await session
				.run(async (sql) => {
					await endRun(sql, runId, outcome, { ...counts, incomplete, requests: client.requests - before });
					await saveBucket(sql, client.arrival);
				})
				.catch(() => undefined);
		}
	}

	/** Waits while the portal pauses a method. Then continues the pass from its cursor. */
	async function throughPauses<T>(pass: () => Promise<T>): Promise<T> {
		[read, waitsSince] = [0, undefined];
		for (;;) {
			try {
				return await pass();
			} catch (error) {
				if (!(error instanceof Bitrix24Error) || error.kind !== 'pause' || error.until === undefined) throw error;
				const { code, until } = error;
				waitsSince ??= clock.now();
				if (until - waitsSince > maxPauseMs) throw error;
				await session.run((sql) => saveBlock(sql, code, until));
				logger.warn(
					{ method: error.method, until: new Date(until).toISOString() },
					'waiting for the end of a rate-limit pause',
				);
				await clock.sleep(Math.max(0, until - clock.now()), signal);
				// Also if the pass then fails for another reason. A new block is stored again.
				await session.run((sql) => saveBlock(sql, null, null));
			}
		}
	}

	function isFullDue({ full_begun_at: begun, last_full_at: last }: SyncState): boolean {
		// The pass nearest to the due time is full. A later time than now was stored before the clock was set back.
		return begun !== null || Math.abs(clock.now() - (last ?? 0)) > fullPassIntervalMs - config.intervalMs / 2;
	}

	return {
		adoptConfiguration,
		async pass({ full = false, requestedAt } = {}) {
			await adoptConfiguration();
			// Once, not after each pause: later the pass continues from its cursor.
			if (full) await session.run(discardFull, allContacts);
			const state = await session.run(readState);
			if (!full && state.watermark !== null && !isFullDue(state))
				return run('incremental', requestedAt, incrementalPass(state.watermark));
			const isContinued = state.full_begun_at !== null;
			const since = state.full_watermark;
			let counts: PassCounts | undefined;
			let changes: ReturnType<typeof incrementalPass> | undefined;
			return run('full', requestedAt, async (each) => {
				counts ??= await fullPass(each);
				if (requestedAt === undefined || !isContinued || since === null) return counts;
				changes ??= incrementalPass(since);
				const more = await changes(each);
				return {
					...counts,
					seen: counts.seen + more.seen,
					created: counts.created + more.created,
					changed: counts.changed + more.changed,
				};
			});
		},
		events: () => run('events', undefined, eventsPass),
	};
}
