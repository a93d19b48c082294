import { setTimeout as delay } from 'node:timers/promises';
import type { Sql } from '@contacts/common/database/client.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { describeAlarms } from '@contacts/crm-sync/alarms.js';
import { systemClock } from '@contacts/crm-sync/bitrix24/clock.js';
import { Bitrix24Error } from '@contacts/crm-sync/bitrix24/errors.js';
import type { CrmConfig } from '@contacts/crm-sync/config.js';
import { ConfigurationDiffersError, mirrorConfiguration } from '@contacts/crm-sync/mirror-configuration.js';
import { IncompleteRunError } from '@contacts/crm-sync/run.js';
import { openSession } from '@contacts/crm-sync/session.js';
import { describeHolder, findLockHolder } from '@contacts/crm-sync/session.sql.js';
import {
	confirmDeletions,
	type RunRow,
	readServingRun,
	readState,
	requestRun,
	takeRequest,
	withdrawRequest,
} from '@contacts/crm-sync/sync.sql.js';
import { createSynchroniser } from '@contacts/crm-sync/synchroniser.js';
import { findDatabaseUrl, withDatabase } from './connection.js';
import { explainFailure } from './crm-advice.js';
import { readCrmConfig } from './crm-config.js';
import { CommandError, UsageError } from './errors.js';
import type { Context, OutputOptions } from './output.js';
import { recordOperation } from './projects.sql.js';

export interface SyncOptions extends OutputOptions {
	/** Do it here if no synchroniser runs. */
	once: boolean;
	full: boolean;
	remap: boolean;
	/** The run whose deletions are confirmed. */
	confirmedRun: number | undefined;
}

/** The interval between two looks at what the synchroniser does. */
const pollIntervalMs = 500;

/** After that, a request does not count any more. */
const requestTimeoutMs = 600_000;

/** A synchroniser with another configuration than the mirror tries each second whether it may work, and holds the lock meanwhile. */
const trialTimeoutMs = 3000;

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** `contacts sync` */
export async function runSync({ environment, output }: Context, options: SyncOptions): Promise<void> {
	const stop = new AbortController();
	const onSignal = () => stop.abort();
	for (const name of signals) process.once(name, onSignal);
	try {
		await withDatabase(environment, async (sql) => {
			const here = { environment, output, options, signal: stop.signal };
			// Before anything is written. Beside a synchroniser that runs no variable is needed.
			const config = (await isFree(sql, options)) ? configOf(here) : undefined;
			if (options.confirmedRun !== undefined) await confirm(sql, options.confirmedRun);
			if (options.remap && config !== undefined)
				await recordOperation(sql, 'new configuration confirmed', mirrorConfiguration(config));
			const run = await serve(sql, here);
			const state = await readState(sql);
			const { kind, outcome, created, changed, deleted, seen, requests } = run;
			if (outcome !== 'done' && outcome !== 'held') throw new CommandError(explainFailure(run, state));
			output.result(
				run,
				`${kind[0]?.toUpperCase()}${kind.slice(1)} pass: ${created} new, ${changed} changed, ${deleted} deleted, of ${seen} contacts read in ${requests} requests.`,
				options,
			);
			// The mirror is not equal to the CRM, which is not a success.
			if (outcome === 'held') throw new CommandError(describeAlarms(state)[0] ?? 'Deletions are on hold.');
		});
	} finally {
		for (const name of signals) process.removeListener(name, onSignal);
	}
}

/** @returns whether no synchroniser runs */
async function isFree(sql: Sql, { remap }: SyncOptions): Promise<boolean> {
	let holder = await findLockHolder(sql);
	for (let waitedMs = 0; remap && holder !== undefined && waitedMs < trialTimeoutMs; waitedMs += pollIntervalMs) {
		await delay(pollIntervalMs);
		holder = await findLockHolder(sql);
	}
	if (remap && holder !== undefined)
		throw new CommandError(
			`A synchroniser works with the configuration of the mirror: stop it, say --remap again, and start it with these values. The lock is held by ${describeHolder(holder)}. Nothing was changed.`,
		);
	return holder === undefined;
}

/** What this process needs to do the work itself. */
interface Here extends Pick<Context, 'environment' | 'output'> {
	options: SyncOptions;
	/** Aborted by Ctrl-C. */
	signal: AbortSignal;
}

function configOf({ environment, options }: Here): CrmConfig {
	if (!options.once) throw new CommandError('No synchroniser runs: start it, or say --once to do this here.');
	const config = readCrmConfig(environment);
	if (Array.isArray(config)) throw new UsageError(config.join('; '));
	return config;
}

async function confirm(sql: Sql, run: number): Promise<void> {
	const confirmed = await confirmDeletions(sql, run);
	if (confirmed === undefined)
		throw new CommandError(`No deletions of run ${run} are on hold: see "contacts sync status". Nothing was done.`);
	await recordOperation(sql, 'mass deletion confirmed', { run, ...confirmed });
}

/** Has the contacts synchronised by the synchroniser that runs, or here. @returns the run that has done it */
async function serve(sql: Sql, here: Here): Promise<RunRow> {
	const { options, signal } = here;
	const requestedAt = await requestRun(sql, options.full ? 'full' : 'incremental');
	const expiresAt = performance.now() + requestTimeoutMs;
	for (;;) {
		const run = await readServingRun(sql, requestedAt);
		// A synchroniser that ends in the middle leaves the work to the next one, or to this command.
		if (run?.outcome === 'interrupted') return serve(sql, here);
		if (run?.ended_at) return run;
		showSeen(here, run?.seen ?? 0, run?.total);
		const holder = await findLockHolder(sql);
		if (holder === undefined) {
			await runRequest(here);
			// Another command may have replaced the request with its own, and taken that back.
			if ((await readServingRun(sql, requestedAt)) === undefined) return serve(sql, here);
			continue;
		}
		if (run === undefined && performance.now() > expiresAt) {
			await withdrawRequest(sql, requestedAt);
			throw new CommandError(
				`Nobody has begun with it, though ${describeHolder(holder)} holds the lock of the synchroniser: look at its log, or restart it. Nothing was done.`,
			);
		}
		await delay(pollIntervalMs, undefined, { signal }).catch(async () => {
			throw new CommandError(
				(await withdrawRequest(sql, requestedAt))
					? 'Interrupted: nothing was done.'
					: 'Interrupted, but the synchroniser goes on with it: see "contacts sync status".',
			);
		});
	}
}

const showSeen = ({ output }: Here, seen: number, total?: number | null) =>
	output.progress(`contacts read: ${seen}${total ? ` of ${total}` : ''}`);

/** Runs what is requested in this process, unless somebody else has taken the lock or the request meanwhile. */
async function runRequest(here: Here): Promise<void> {
	const config = configOf(here);
	const { environment, signal, options } = here;
	const session = await openSession(findDatabaseUrl(environment));
	if (session === undefined) return;
	try {
		const logger = createLogger({ name: 'contacts sync', level: 'silent' });
		const onProgress = (seen: number, total: number | undefined) => showSeen(here, seen, total);
		const parts = { config, session, clock: systemClock, logger, signal, remap: options.remap, onProgress };
		const synchroniser = await createSynchroniser(parts);
		const request = await session.run(takeRequest);
		if (request !== undefined)
			await synchroniser.run({ full: request.kind === 'full', requestedAt: request.requestedAt });
	} catch (error) {
		if (signal.aborted) throw new CommandError('Interrupted: a full pass continues from its last page next time.');
		if (error instanceof ConfigurationDiffersError)
			throw new CommandError(
				`The mirror was made with another configuration: ${error.differences.join('; ')}. Nothing was changed. Set the variables as they were, or say --remap to read every contact again with these.`,
			);
		// The row of the run says it.
		if (!(error instanceof Bitrix24Error || error instanceof IncompleteRunError)) throw error;
	} finally {
		await session.close();
	}
}
