import type { FastifyBaseLogger } from 'fastify';
import { createCrmClient } from './bitrix24/client.js';
import { createCrm } from './bitrix24/crm.js';
import { Bitrix24Error } from './bitrix24/errors.js';
import type { Clock } from './clock.js';
import type { CrmConfig } from './config.js';
import { missingTroubleOptions } from './mapping.js';
import { compare, configurationDiffers, mirrorConfiguration, requireConfirmed } from './mirror/configuration.js';
import { beginRun, closeInterruptedRuns, endRun, prune, type RunKind } from './mirror/runs.sql.js';
import { allContacts, type Session } from './mirror/session.js';
import {
	discardFull,
	readState,
	type SyncState,
	saveBlock,
	saveCategories,
	saveConfiguration,
} from './mirror/state.sql.js';
import { type Plan, planRun } from './plan.js';
import { eventsRun } from './runs/events.js';
import { fullRun } from './runs/full.js';
import { incrementalRun } from './runs/incremental.js';
import { IncompleteRunError, type RunContext, type RunRecord } from './runs/run.js';

export interface SynchroniserOptions extends Partial<Pick<RunContext, 'onUnmapped' | 'onUnread'>> {
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

/** After an error that somebody has to fix, no request is made for this long. */
export const circuitBreakMs = 600_000;

const refusedCategories =
	'the CRM does not tell the categories of its contacts: only the general one is read, and what is mirrored of others stays';

const missingOptions = 'BITRIX24_TROUBLE_OPTIONS names options that the field BITRIX24_UF_TROUBLE does not have';

/**
 * Keeps the mirror equal to the CRM's contacts, on the session that holds the lock. Each function throws ConfigurationDiffersError if
 * the mirror belongs to another configuration by now.
 */
export async function createSynchroniser(options: SynchroniserOptions) {
	const { config, session, clock, logger, signal, responseTimeoutMs } = options;
	const { onUnmapped = () => undefined, onUnread = () => undefined } = options;
	await session.run(closeInterruptedRuns);
	const client = createCrmClient({
		webhookUrl: config.webhookUrl,
		policy: config.policy,
		clock,
		...(signal && { signal }),
		...(responseTimeoutMs && { responseTimeoutMs }),
		onError(error) {
			logger.warn({ method: error.method, code: error.code, kind: error.kind }, 'error of the CRM');
			options.onCrmError?.(error);
		},
		onPause: (error) => session.run((sql) => saveBlock(sql, error)),
	});
	const own = mirrorConfiguration(config);
	/** It is opened once: what it has found out about its lists holds as long as the process. */
	const crm = createCrm(client, config.codes);
	let isPrepared = false;
	/** When the last full run was found incomplete. */
	let incompleteAt = Number.NEGATIVE_INFINITY;

	/** Reads where the mirror stands. @throws ConfigurationDiffersError if somebody has confirmed another configuration since */
	async function readConfirmedState(): Promise<SyncState> {
		const state = await session.run(readState);
		if (!options.remap) requireConfirmed(state.configuration, own);
		if (state.blocked_by === configurationDiffers) await session.run((sql) => saveBlock(sql, undefined));
		return state;
	}

	/** Reads what a run needs to know of the CRM. */
	async function prepare(kind: RunKind): Promise<void> {
		// Runs of events are too frequent. An option or category that is new to them is read when it is found.
		if (kind === 'events' && isPrepared) return;
		const waits = kind !== 'events';
		await crm.readFields({ waits });
		const unknown = missingTroubleOptions(crm.fields(), config.mapping);
		if (kind === 'full' && unknown.length > 0) logger.warn({ options: unknown }, missingOptions);
		// A refusal is an error of the CRM, which need not be repeated every few minutes.
		if (kind !== 'incremental' || crm.categories().refusedBy === undefined) await crm.readCategories({ waits });
		isPrepared = true;
	}

	/** Stores what this run assigns to the mirror, after the CRM has responded: a wrong address must not count as mirrored. */
	async function adopt(state: SyncState, plan?: Plan): Promise<void> {
		const { differences, isNew } = compare(state.configuration, own);
		// First: a crash in between must not let the new configuration or category continue the run of the old ones.
		if (isNew || plan?.fromStart) await session.run(discardFull, allContacts);
		if (isNew) await session.run((sql) => saveConfiguration(sql, own, differences.length > 0));
		if (plan === undefined) return;
		const { ordinary, refusedBy = null } = crm.categories();
		if (refusedBy !== null && refusedBy !== state.categories_refused_by)
			logger.warn({ code: refusedBy }, refusedCategories);
		await session.run((sql) => saveCategories(sql, [...ordinary], refusedBy));
	}

	/** Records a run in the log of runs, and stores the reason if the synchroniser is blocked. */
	async function recordRun(
		kind: RunKind,
		requestedAt: string | undefined,
		work: (context: RunContext) => Promise<void>,
	): Promise<RunRecord> {
		const runId = await session.run((sql) => beginRun(sql, kind, requestedAt ?? null));
		if (kind !== 'events') await session.run(prune, allContacts);
		const before = client.requests;
		const counts = { seen: 0, created: 0, changed: 0, deleted: 0, unread: 0, requests: 0 };
		const record: RunRecord = { kind, ...counts, isHeld: false };
		const { mapping } = config;
		let outcome = 'failed';
		try {
			await work({ crm, session, mapping, clock, logger, runId, record, onUnmapped, onUnread });
			outcome = record.isHeld ? 'held' : 'done';
		} catch (error) {
			if (signal?.aborted) {
				outcome = 'interrupted';
			} else if (error instanceof IncompleteRunError) {
				outcome = 'incomplete';
				if (record.kind === 'full') incompleteAt = clock.now();
			} else if (error instanceof Bitrix24Error) {
				outcome = error.code;
				// The fields and categories of the CRM may have changed.
				isPrepared = false;
				const isEventsPause = kind === 'events' && error.kind === 'pause';
				if (!isEventsPause) await session.run((sql) => saveBlock(sql, { code: error.code, until: blockEnd(error) }));
			}
			throw error;
		} finally {
			record.requests = client.requests - before;
			await session.run((sql) => endRun(sql, runId, outcome, record)).catch(() => undefined);
		}
		return record;
	}

	function blockEnd({ kind, until }: Bitrix24Error): number | undefined {
		const isForSomebody = kind === 'stop' || kind === 'access_denied';
		return until ?? (isForSomebody ? clock.now() + circuitBreakMs : undefined);
	}

	return {
		/**
		 * Makes a full run from the start if `full`; else a full run that is due or unfinished; else an incremental run.
		 *
		 * @param requestedAt when a command has requested this run. The mirror is then complete up to then: what has changed since an
		 *   unfinished full run began is read too.
		 */
		async run({ full = false, requestedAt }: { full?: boolean; requestedAt?: string } = {}): Promise<RunRecord> {
			const state = await readConfirmedState();
			const request = full ? 'full' : requestedAt === undefined ? undefined : 'incremental';
			const { intervalMs } = config;
			const planWith = (categories: Iterable<number>) =>
				planRun({ state, request, own, categories, now: clock.now(), intervalMs, incompleteAt });
			const { kind: expected } = planWith([]);
			return recordRun(expected, requestedAt, async (context) => {
				await prepare(expected);
				const plan = planWith(crm.categories().ordinary);
				const { kind, fromStart } = plan;
				context.record.kind = kind;
				logger.info({ run: context.runId, ...plan }, 'run begins');
				await adopt(state, plan);
				if (kind === 'incremental') return incrementalRun(context, state.watermark ?? 0);
				await fullRun(context, fromStart ? undefined : (state.full_cursor ?? 0));
				if (requestedAt !== undefined && !fromStart) await incrementalRun(context, state.full_watermark ?? 0);
			});
		},
		/** @throws Bitrix24Error `pause`: events do not wait for the end of a rate-limit pause, so that runs and requests go on */
		async events(): Promise<RunRecord> {
			const state = await readConfirmedState();
			return recordRun('events', undefined, async (context) => {
				await prepare('events');
				await adopt(state);
				await eventsRun(context);
			});
		},
	};
}
