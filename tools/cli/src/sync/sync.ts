import { setTimeout as delay } from 'node:timers/promises';
import { describeHolder } from '@contacts/common/database/advisory-lock.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { readVariables } from '@contacts/common/process/config.js';
import { Bitrix24Error } from '@contacts/crm-sync/bitrix24/errors.js';
import { systemClock } from '@contacts/crm-sync/clock.js';
import { type CrmConfig, crmVariables, toCrmConfig } from '@contacts/crm-sync/config.js';
import { synchronise } from '@contacts/crm-sync/loop.js';
import { describeAlarms } from '@contacts/crm-sync/mirror/alarms.js';
import {
	ConfigurationDiffersError,
	mirrorConfiguration,
	requireConfirmed,
} from '@contacts/crm-sync/mirror/configuration.js';
import { confirmLoss, requestRun, withdrawRequest } from '@contacts/crm-sync/mirror/requests.sql.js';
import { type RunRow, readRuns, readServingRun } from '@contacts/crm-sync/mirror/runs.sql.js';
import { findLockHolder } from '@contacts/crm-sync/mirror/session.sql.js';
import { readState } from '@contacts/crm-sync/mirror/state.sql.js';
import { describeUnreadablePhones, readUnreadablePhones } from '@contacts/crm-sync/mirror/unreadable-phones.sql.js';
import { IncompleteRunError } from '@contacts/crm-sync/runs/run.js';
import { findDatabaseUrl, withDatabase } from '../connection.js';
import { CommandError, InterruptedError } from '../errors.js';
import { recordOperation } from '../sql/audit.sql.js';
import { interruptible } from '../terminal/interrupt.js';
import type { Context, OutputOptions } from '../terminal/output.js';
import { explainFailure } from './advice.js';

export interface SyncOptions extends OutputOptions {
	/** Do it here if no synchroniser runs. */
	once?: boolean;
	full?: boolean;
	/** Do it here, with another configuration than that of the mirror. */
	remap?: boolean;
	/** The run that holds what is confirmed. */
	confirmMassDelete?: number;
}

/** The interval between two looks at what the synchroniser does. */
const pollIntervalMs = 500;

/** After that, a request does not count any more. */
const requestTimeoutMs = 600_000;

/** What this process needs to do the work itself. */
interface Here extends Pick<Context, 'environment' | 'output'> {
	options: SyncOptions;
	/** Aborted by Ctrl-C. */
	signal: AbortSignal;
	/** The synchroniser of this command, once it has started. */
	loop?: Promise<void>;
	/** Ends it. Aborted by its failure and by Ctrl-C, too. */
	ended: AbortController;
}

/** `contacts sync` */
export async function runSync({ environment, output }: Context, options: SyncOptions): Promise<void> {
	try {
		await withDatabase(environment, async (sql) => {
			const run = await interruptible(async (signal) => {
				const ended = new AbortController();
				signal.addEventListener('abort', () => ended.abort(signal.reason));
				const here: Here = { environment, output, options, signal, ended };
				await prepare(sql, here);
				return serve(sql, here);
			});
			const state = await readState(sql);
			const { kind, outcome, created, changed, deleted, seen, requests } = run;
			if (outcome !== 'done' && outcome !== 'held') throw new CommandError(explainFailure(run, state));
			// A synchroniser with the earlier configuration may have begun meanwhile, and done the run.
			if (options.remap) requireConfirmed(state.configuration, mirrorConfiguration(configOf({ environment })));
			output.result(
				run,
				`${kind[0]?.toUpperCase()}${kind.slice(1)} run: ${created} new, ${changed} changed, ${deleted} deleted, of ${seen} contacts read in ${requests} requests.`,
				options,
			);
			// The mirror is not equal to the CRM, which is not a success.
			if (outcome === 'held') throw new CommandError(describeAlarms(state)[0] ?? 'Something is held.');
		});
	} catch (error) {
		if (!(error instanceof ConfigurationDiffersError)) throw error;
		throw new CommandError(
			`The mirror was made with another configuration: ${error.differences.join('; ')}. Nothing was changed. Set the variables as they were, or say --remap to read every contact again with these.`,
		);
	}
}

/** Records what the operator confirms, but only when nothing refuses the work. */
async function prepare(sql: Sql, here: Here): Promise<void> {
	const { remap, confirmMassDelete: run } = here.options;
	// Beside a synchroniser that runs no variable is needed.
	if (await isFree(sql, here.options)) {
		requireOnce(here.options);
		const own = mirrorConfiguration(configOf(here));
		if (!remap) requireConfirmed((await readState(sql)).configuration, own);
	}
	if (run !== undefined) {
		const confirmed = await confirmLoss(sql, run);
		if (confirmed === undefined)
			throw new CommandError(`Run ${run} holds nothing: see "contacts sync status". Nothing was done.`);
		await recordOperation(sql, 'mass deletion confirmed', { run, ...confirmed });
	}
	if (remap) await recordOperation(sql, 'new configuration confirmed', mirrorConfiguration(configOf(here)));
}

/** @returns whether no synchroniser runs */
async function isFree(sql: Sql, { remap }: SyncOptions): Promise<boolean> {
	const holder = await findLockHolder(sql);
	if (remap && holder !== undefined)
		throw new CommandError(
			`A synchroniser works with the configuration of the mirror: stop it, say --remap again, and start it with these values. The lock is held by ${describeHolder(holder)}. Nothing was changed.`,
		);
	return holder === undefined;
}

/** @throws CommandError when this command may not do the work itself */
function requireOnce({ once, remap }: SyncOptions): void {
	if (!once && !remap) throw new CommandError('No synchroniser runs: start it, or say --once to do this here.');
}

/** @throws ConfigError */
const configOf = ({ environment }: Pick<Context, 'environment'>): CrmConfig =>
	toCrmConfig(readVariables(crmVariables, environment));

/** Has the contacts synchronised by the synchroniser that runs, or here. @returns the run that has done it */
async function serve(sql: Sql, here: Here): Promise<RunRow> {
	const { full, remap, confirmMassDelete } = here.options;
	const kind = full || remap || confirmMassDelete !== undefined ? 'full' : 'incremental';
	try {
		for (;;) {
			const run = await watch(sql, here, await requestRun(sql, kind));
			if (run !== undefined) return run;
		}
	} finally {
		here.ended.abort();
		await here.loop?.catch(() => undefined);
	}
}

/** Waits for the run that serves a request, and starts a synchroniser here where none runs. @returns undefined: request it again */
async function watch(sql: Sql, here: Here, requestedAt: string): Promise<RunRow | undefined> {
	const { options, output, signal } = here;
	const expiresAt = performance.now() + requestTimeoutMs;
	for (;;) {
		const run = await readServingRun(sql, requestedAt);
		// A synchroniser that ends in the middle leaves the work to the next one, or to this command.
		if (run?.outcome === 'interrupted') return undefined;
		if (run?.ended_at) return run;
		output.progress(progressOf(run?.seen ?? 0, run?.total));
		const holder = await findLockHolder(sql);
		if (holder === undefined) {
			requireOnce(options);
			start(here);
		}
		if (run === undefined && performance.now() > expiresAt) {
			const [latest] = await readRuns(sql, 1);
			if (latest?.ended_at === null) {
				// A run that takes longer than a request counts: it is requested again, and confirmed again.
				if (options.confirmMassDelete !== undefined) await confirmLoss(sql, options.confirmMassDelete);
				return undefined;
			}
			await withdrawRequest(sql, requestedAt);
			throw new CommandError(
				`Nobody has begun with it, though ${describeHolder(holder)} holds the lock of the synchroniser: look at its log, or restart it. Nothing was done.`,
			);
		}
		await delay(pollIntervalMs, undefined, { signal: here.ended.signal }).catch(async () => {
			if (!signal.aborted) throw here.ended.signal.reason;
			if (await withdrawRequest(sql, requestedAt)) throw signal.reason;
			const what = here.loop
				? 'Interrupted: a full run continues from its last page next time.'
				: 'Interrupted, but the synchroniser goes on with it: see "contacts sync status".';
			throw new InterruptedError(signal.reason.signal, what);
		});
	}
}

const progressOf = (seen: number, total?: number | null) => `contacts read: ${seen}${total ? ` of ${total}` : ''}`;

/** Starts a synchroniser in this process. It serves the request first, unless another one has taken the lock meanwhile. */
function start(here: Here): void {
	const { environment, options, ended } = here;
	here.loop ??= synchronise({
		databaseUrl: findDatabaseUrl(environment),
		config: configOf(here),
		clock: systemClock,
		logger: createLogger({ name: 'contacts sync', level: 'silent' }),
		signal: ended.signal,
		remap: options.remap ?? false,
		onConfigurationDiffers: (error) => ended.abort(error),
		onBeginError: (error) => ended.abort(error),
		onRunError(error) {
			// Of the others the row of the run says it.
			if (!(error instanceof Bitrix24Error || error instanceof IncompleteRunError)) ended.abort(error);
		},
	});
	here.loop.catch((error: unknown) => ended.abort(error));
}

/** `contacts sync status` */
export async function printSyncStatus({ environment, output }: Context, options: OutputOptions): Promise<void> {
	const { state, runs, holder, unreadable } = await withDatabase(environment, async (sql) => ({
		state: await readState(sql),
		runs: await readRuns(sql, 5),
		holder: await findLockHolder(sql),
		unreadable: await readUnreadablePhones(sql),
	}));
	const times = {
		watermark: iso(state.watermark),
		last_success_at: iso(state.last_success_at),
		last_full_at: iso(state.last_full_at),
		full_watermark: iso(state.full_watermark),
		full_begun_at: iso(state.full_begun_at),
		blocked_until: iso(state.blocked_until),
	};
	// For the synchroniser alone.
	const { full_cursor, ...shown } = { ...state, ...times };
	if (options.json)
		return output.result(
			{ synchroniser: holder ?? null, state: shown, unreadable_phones: unreadable, runs },
			'',
			options,
		);
	if (state.configuration === null && runs.length === 0 && holder === undefined)
		return output.print('No CRM is mirrored: set BITRIX24_WEBHOOK_URL, and start the synchroniser.');

	const until = times.blocked_until === null ? '' : `, until ${times.blocked_until}`;
	const lines = [
		['synchroniser', holder === undefined ? 'none runs' : describeHolder(holder)],
		['last success', times.last_success_at ?? 'never'],
		['last full run', times.last_full_at ?? 'not complete: one is due'],
		['up to', times.watermark === null ? '-' : `${times.watermark} by the CRM's clock`],
		['in progress', times.full_begun_at && `full run since ${times.full_begun_at}, up to contact ${state.full_cursor}`],
		['requested', state.requested && `a run (${state.requested})`],
		['blocked by', state.blocked_by && `${state.blocked_by}${until}`],
		...describeAlarms(state).map((alarm) => ['alarm', alarm]),
		['phones', describeUnreadablePhones(unreadable)],
		...Object.entries(state.configuration ?? {}).map(([name, value]) => [
			name === 'portal' ? 'crm host' : name,
			String(value ?? '-'),
		]),
	];
	for (const [label, text] of lines) if (text) output.entry(label?.padEnd(17) ?? '', text);
	output.print('');
	output.records(runs, ['id', 'kind', 'begun_at', 'seen', 'created', 'changed', 'deleted', 'outcome'], options);
}

const iso = (time: number | null) => (time === null ? null : `${new Date(time).toISOString().slice(0, 19)}Z`);
