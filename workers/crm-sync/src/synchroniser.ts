import type { FastifyBaseLogger } from 'fastify';
import { createCrmClient } from './bitrix24/client.js';
import type { Clock } from './bitrix24/clock.js';
import { createCrm } from './bitrix24/crm.js';
import { Bitrix24Error } from './bitrix24/errors.js';
import type { CrmConfig } from './config.js';
import { eventsRun } from './events-run.js';
import { fullRun } from './full-run.js';
import { incrementalRun } from './incremental-run.js';
import { missingTroubleOptions } from './mapping.js';
import {
	ConfigurationDiffersError,
	configurationDiffers,
	differencesOf,
	mirrorConfiguration,
	needsFullRun,
} from './mirror-configuration.js';
import { addCounts, type Counts, IncompleteRunError, type RunContext } from './run.js';
import { allContacts, type Session } from './session.js';
import {
	beginRun,
	changeKind,
	closeInterruptedRuns,
	discardFull,
	endRun,
	prune,
	type RunKind,
	readState,
	type SyncState,
	saveBlock,
	saveBucket,
	saveCategories,
	saveConfiguration,
	saveProgress,
} from './sync.sql.js';

export interface SynchroniserOptions extends Partial<Pick<RunContext, 'onProgress' | 'onUnmapped' | 'onUnread'>> {
	config: CrmConfig;
	session: Session;
	clock: Clock;
	logger: FastifyBaseLogger;
	signal?: AbortSignal;
	/** Assigns this configuration to the mirror if it has another one: every contact is then read again. */
	remap?: boolean;
	/** The timeout for each response of the CRM. */
	responseTimeoutMs?: number;
	onCrmError?: (error: Bitrix24Error) => void;
}

/** The result of a run. */
export interface RunResult extends Counts {
	kind: RunKind;
	requests: number;
}

/** Each function throws ConfigurationDiffersError if the mirror belongs to another configuration. */
export interface Synchroniser {
	checkConfiguration(): Promise<void>;
	/**
	 * Makes a full run from the start if `full`; else a full run that is due or unfinished; else an incremental run.
	 *
	 * @param request when a command has requested this run. The mirror is then complete up to then: what has changed since an
	 *   unfinished full run began is read too.
	 */
	run(options?: { full?: boolean; requestedAt?: string }): Promise<RunResult>;
	/** @throws Bitrix24Error `pause`: events do not wait for the end of a rate-limit pause, so that runs and requests go on */
	events(): Promise<RunResult>;
}

/** Only a full run finds every deletion, merge and changed link. */
const fullRunIntervalMs = 24 * 3_600_000;

/** An incomplete full run is repeated after this time. Incremental runs go on meanwhile. */
const incompleteRetryMs = 3_600_000;

/** After an error that somebody has to fix, no request is made for this long. */
export const circuitBreakMs = 600_000;

/** How often the run's row shows the progress. */
const progressIntervalMs = 1000;

const refusedCategories =
	'the CRM does not tell the categories of its contacts: only the general one is read, and what is mirrored of others stays';

const missingOptions = 'BITRIX24_TROUBLE_OPTIONS names options that the field BITRIX24_UF_TROUBLE does not have';

/** Keeps the mirror equal to the CRM's contacts, on the session that holds the lock. */
export async function createSynchroniser(options: SynchroniserOptions): Promise<Synchroniser> {
	const { config, session, clock, logger, signal, responseTimeoutMs } = options;
	const { onUnmapped = () => undefined, onUnread = () => undefined } = options;
	const { bucket_arrival: arrival } = await session.run(readState);
	await session.run(closeInterruptedRuns);
	const client = createCrmClient({
		webhookUrl: config.webhookUrl,
		policy: config.policy,
		clock,
		arrival,
		// Before the request: a killed process must not forget the requests that it has sent.
		onRequest: (spent) => session.run((sql) => saveBucket(sql, spent)),
		...(signal && { signal }),
		...(responseTimeoutMs && { responseTimeoutMs }),
		onError(error) {
			logger.warn({ method: error.method, code: error.code, kind: error.kind }, 'error of the CRM');
			options.onCrmError?.(error);
		},
		async onPause(error) {
			await session.run((sql) => saveBlock(sql, error));
			if (error !== undefined)
				logger.warn({ method: error.method, until: isoTime(error.until) }, 'waiting for the end of a rate-limit pause');
		},
	});
	const own = mirrorConfiguration(config);
	/** It is opened once: what it has found out about its lists holds as long as the process. */
	const crm = createCrm(client, config.codes);
	let isPrepared = false;
	let isRefusalLogged = false;
	let isChecked = false;
	let progressSavedAt = Number.NEGATIVE_INFINITY;
	/** When the last full run was found incomplete. */
	let incompleteAt = Number.NEGATIVE_INFINITY;

	async function checkConfiguration(): Promise<void> {
		// Nobody else changes it while this synchroniser holds the lock.
		if (isChecked) return;
		const { configuration: stored, blocked_by: blockedBy } = await session.run(readState);
		const differences = stored === null || options.remap ? [] : differencesOf(stored, own);
		if (differences.length > 0) throw new ConfigurationDiffersError(differences);
		if (blockedBy === configurationDiffers) await session.run((sql) => saveBlock(sql, undefined));
		isChecked = true;
	}

	/** Reads what a run needs to know of the CRM. @returns the kind that the run has to be */
	async function prepare(kind: RunKind): Promise<RunKind> {
		// Runs of events are too frequent. An option or category that is new to them is read when it is found.
		if (kind === 'events' && isPrepared) return kind;
		await readFields(kind);
		// A refusal is an error of the CRM, which need not be repeated every few minutes.
		if (kind !== 'incremental' || crm.categories().refusedBy === undefined)
			await crm.readCategories({ waits: kind !== 'events' });
		const isNew = await adoptConfiguration();
		isPrepared = true;
		if (kind === 'events') return kind;
		return (await saveNewCategories()) || isNew ? 'full' : kind;
	}

	/**
	 * Assigns this configuration to the mirror, after the CRM has responded: a wrong address must not count as mirrored.
	 *
	 * @returns whether it is new. Every contact is then read again
	 */
	async function adoptConfiguration(): Promise<boolean> {
		const { configuration: stored } = await session.run(readState);
		if (!needsFullRun(stored, own)) return false;
		if (stored === null) logger.info({ own }, 'first run: every contact is read');
		else logger.warn({ stored, own }, 'the mirror gets another configuration: every contact is read again');
		// First: a crash between the two must not let the new configuration continue the run of the old one.
		await session.run(discardFull, allContacts);
		const isConfirmed = stored !== null && differencesOf(stored, own).length > 0;
		await session.run((sql) => saveConfiguration(sql, own, isConfirmed));
		return true;
	}

	/** @returns whether there is a category whose contacts have not been read. A full run then begins with the first contact. */
	async function saveNewCategories(): Promise<boolean> {
		const { ordinary, refusedBy = null } = crm.categories();
		const { categories: known } = await session.run(readState);
		const isNew = [...ordinary].some((id) => !known.includes(id));
		if (isNew) await session.run((sql) => discardFull(sql, { isIncomplete: true }), allContacts);
		await session.run((sql) => saveCategories(sql, [...ordinary], refusedBy));
		if (refusedBy !== null && !isRefusalLogged) logger.warn({ code: refusedBy }, refusedCategories);
		isRefusalLogged = refusedBy !== null;
		return isNew;
	}

	async function readFields(kind: RunKind): Promise<void> {
		await crm.readFields({ waits: kind !== 'events' });
		const unknown = missingTroubleOptions(crm.fields(), config.mapping);
		if (kind === 'full' && unknown.length > 0) logger.warn({ options: unknown }, missingOptions);
	}

	function contextOf(runId: number): RunContext {
		const onProgress: RunContext['onProgress'] = (seen, total) => {
			options.onProgress?.(seen, total);
			if (clock.now() - progressSavedAt < progressIntervalMs) return;
			progressSavedAt = clock.now();
			// Not critical: the run itself notices a lost connection.
			session.run((sql) => saveProgress(sql, runId, seen, total)).catch(() => undefined);
		};
		return { crm, session, mapping: config.mapping, clock, logger, runId, onProgress, onUnmapped, onUnread };
	}

	/** Records a run in the log of runs, and stores the reason if the synchroniser is blocked. */
	async function record(
		intended: RunKind,
		requestedAt: string | undefined,
		work: (context: RunContext, kind: RunKind) => Promise<Counts>,
	): Promise<RunResult> {
		let kind = intended;
		const runId = await session.run((sql) => beginRun(sql, intended, requestedAt ?? null));
		if (kind !== 'events') await session.run(prune, allContacts);
		const before = client.requests;
		let counts: Counts & { unread?: number } = { seen: 0, created: 0, changed: 0, deleted: 0 };
		let outcome = 'failed';
		try {
			kind = await prepare(intended);
			if (kind !== intended) await session.run((sql) => changeKind(sql, runId, kind));
			counts = await work(contextOf(runId), kind);
			outcome = counts.isHeld ? 'held' : 'done';
			return { kind, ...counts, requests: client.requests - before };
		} catch (error) {
			if (signal?.aborted) {
				outcome = 'interrupted';
			} else if (error instanceof IncompleteRunError) {
				outcome = 'incomplete';
				({ counts } = error);
				if (kind === 'full') incompleteAt = clock.now();
			} else if (error instanceof Bitrix24Error) {
				outcome = error.code;
				// The fields and categories of the CRM may have changed.
				isPrepared = false;
				const isEventsPause = kind === 'events' && error.kind === 'pause';
				if (!isEventsPause) await session.run((sql) => saveBlock(sql, { code: error.code, until: blockEnd(error) }));
			}
			throw error;
		} finally {
			const row = { unread: 0, ...counts, requests: client.requests - before };
			await session.run((sql) => endRun(sql, runId, outcome, row)).catch(() => undefined);
		}
	}

	function blockEnd({ kind, until }: Bitrix24Error): number | undefined {
		const isForSomebody = kind === 'stop' || kind === 'access_denied';
		return until ?? (isForSomebody ? clock.now() + circuitBreakMs : undefined);
	}

	function isFullDue({ full_begun_at: begun, last_full_at: last }: SyncState, isRequested: boolean): boolean {
		if (begun !== null) return true;
		// A later time than now is from before the clock was set back.
		if (!isRequested && Math.abs(clock.now() - incompleteAt) < incompleteRetryMs) return false;
		// The run nearest to the due time is full.
		return Math.abs(clock.now() - (last ?? 0)) > fullRunIntervalMs - config.intervalMs / 2;
	}

	return {
		checkConfiguration,
		async run({ full = false, requestedAt } = {}) {
			await checkConfiguration();
			if (full) await session.run(discardFull, allContacts);
			const state = await session.run(readState);
			const isFull = full || state.watermark === null || isFullDue(state, requestedAt !== undefined);
			return record(isFull ? 'full' : 'incremental', requestedAt, async (context, kind) => {
				const { watermark, full_watermark: since } = await session.run(readState);
				if (kind === 'incremental') return incrementalRun(context, watermark ?? 0);
				const counts = await fullRun(context);
				if (requestedAt !== undefined && since !== null) addCounts(counts, await incrementalRun(context, since));
				return counts;
			});
		},
		async events() {
			await checkConfiguration();
			return record('events', undefined, eventsRun);
		},
	};
}

function isoTime(milliseconds: number | undefined): string | undefined {
	return milliseconds === undefined ? undefined : new Date(milliseconds).toISOString();
}
