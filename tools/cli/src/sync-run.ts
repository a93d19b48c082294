import { setTimeout as delay } from 'node:timers/promises';
import type { Sql } from '@contacts/common/database/client.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { describeAlarms } from '@contacts/crm-sync/alarms.js';
import { systemClock } from '@contacts/crm-sync/bitrix24/clock.js';
import { Bitrix24Error } from '@contacts/crm-sync/bitrix24/errors.js';
import type { CrmConfig } from '@contacts/crm-sync/config.js';
import { type EventOutcome, requestContact, takeContactOutcome } from '@contacts/crm-sync/inbox.sql.js';
import {
	ConfigurationDiffersError,
	differencesOf,
	mirrorConfiguration,
} from '@contacts/crm-sync/mirror-configuration.js';
import { IncompleteRunError } from '@contacts/crm-sync/run.js';
import { openSession } from '@contacts/crm-sync/session.js';
import { describeHolder, findLockHolder, type LockHolder } from '@contacts/crm-sync/session.sql.js';
import {
	confirmDeletions,
	type RunRow,
	readRuns,
	readServingRun,
	readState,
	requestRun,
	takeRequest,
	withdrawRequest,
} from '@contacts/crm-sync/sync.sql.js';
import { createSynchroniser, type Synchroniser } from '@contacts/crm-sync/synchroniser.js';
import { findDatabaseUrl, withDatabase } from './connection.js';
import { explainFailure } from './crm-advice.js';
import { readCrmConfig } from './crm-config.js';
import { CommandError, UsageError } from './errors.js';
import { type OutputOptions, printResult } from './output.js';
import { createProgress, type Progress } from './progress.js';
import { recordOperation } from './projects.sql.js';

export interface SyncOptions extends OutputOptions {
	/** Does it here if no synchroniser runs. */
	once?: boolean;
	full?: boolean;
	contact?: string;
	/** The run whose deletions are confirmed. */
	confirmMassDelete?: string;
	remap?: boolean;
}

/** What the command works with. */
interface Work {
	sql: Sql;
	url: string;
	/** Or the lines that say which variables are wrong. */
	config: CrmConfig | string[];
	options: SyncOptions;
	/** Aborted by Ctrl-C. */
	signal: AbortSignal;
}

/** The interval between two looks at what the synchroniser does. */
const pollIntervalMs = 500;

/** The timeout until a synchroniser begins that does nothing else. It looks for requests once a second. */
const beginTimeoutMs = 60_000;

/** The same for one that is busy with a run: after that, a request does not count any more. */
const requestTimeoutMs = 600_000;

/**
 * How long a synchroniser holds the lock at most that only looks whether the mirror now belongs to its configuration. Such a
 * synchroniser tries it each second.
 */
const trialTimeoutMs = 3000;

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** `contacts sync` */
export async function runSync(environment: NodeJS.ProcessEnv, options: SyncOptions): Promise<void> {
	const url = await findDatabaseUrl(environment);
	const stop = new AbortController();
	const onSignal = () => stop.abort();
	for (const name of signals) process.once(name, onSignal);
	try {
		await withDatabase(environment, async (sql) => {
			const { configuration } = await readState(sql);
			const config = readCrmConfig(environment, options.remap ? null : configuration);
			const work: Work = { sql, url, config, options, signal: stop.signal };
			if (configuration !== null && !options.remap && !Array.isArray(config))
				refuse(differencesOf(configuration, mirrorConfiguration(config)));
			await checkHolder(work);
			if (options.contact === undefined) await syncAll(work);
			else await syncContact(work, Number(options.contact));
		});
	} finally {
		for (const name of signals) process.removeListener(name, onSignal);
	}
}

function refuse(differences: string[]): void {
	if (differences.length === 0) return;
	throw new CommandError(
		`The mirror was made with another configuration: ${differences.join('; ')}. Nothing was changed. Set the variables as they were, or say --remap to read every contact again with these.`,
	);
}

/** @throws CommandError or UsageError if nobody could do it, before anything is written */
async function checkHolder({ sql, config, options, signal }: Work): Promise<void> {
	let holder = await findLockHolder(sql);
	const begun = performance.now();
	while (holder !== undefined && options.remap) {
		if (performance.now() - begun > trialTimeoutMs)
			throw new CommandError(
				`A synchroniser works with the configuration of the mirror: stop it, say --remap again, and start it with these values. The lock is held by ${describeHolder(holder)}. Nothing was changed.`,
			);
		await delay(trialTimeoutMs / 10, undefined, { signal }).catch(() => {
			throw new CommandError('Interrupted: nothing was done.');
		});
		holder = await findLockHolder(sql);
	}
	if (holder !== undefined) return;
	if (!options.once)
		throw new CommandError('No synchroniser runs: start it, or say --once to do this here. Nothing was done.');
	if (Array.isArray(config)) throw new UsageError(config.join('\n'));
}

/** Has all contacts synchronised, by the synchroniser that runs, or here. */
async function syncAll(work: Work): Promise<void> {
	const { sql, options } = work;
	if (options.confirmMassDelete !== undefined) {
		const run = Number(options.confirmMassDelete);
		const confirmed = await confirmDeletions(sql, run);
		if (confirmed === undefined)
			throw new CommandError(`No deletions of run ${run} are on hold: see "contacts sync status". Nothing was done.`);
		await recordOperation(sql, 'mass deletion confirmed', { run, ...confirmed });
	}
	if (options.remap && !Array.isArray(work.config))
		await recordOperation(sql, 'new configuration confirmed', mirrorConfiguration(work.config));

	const isFull = options.full || options.remap || options.confirmMassDelete !== undefined;
	let progress: Progress | undefined;
	let run: RunRow | undefined;
	try {
		// A synchroniser that ends in the middle leaves the work to the next one, or to this command.
		while (run === undefined || run.outcome === 'interrupted') {
			const requestedAt = await requestRun(sql, isFull ? 'full' : 'incremental');
			run = await untilDone(work, requestedAt, (seen, total) => {
				progress ??= createProgress(total);
				progress.update(seen, seen);
			});
		}
	} finally {
		progress?.stop();
	}
	const state = await readState(sql);
	const { kind, outcome, created, changed, deleted, seen, requests } = run;
	if (outcome !== 'done' && outcome !== 'held') throw new CommandError(explainFailure(run, state));
	const name = `${kind[0]?.toUpperCase()}${kind.slice(1)} pass`;
	printResult(
		run,
		`${name}: ${created} new, ${changed} changed, ${deleted} deleted, of ${seen} contacts read in ${requests} requests.`,
		options,
	);
	// The mirror is not equal to the CRM, which is not a success.
	if (outcome === 'held') throw new CommandError(describeAlarms(state)[0] ?? 'Deletions are on hold.');
}

/** @returns the run that has served the request */
async function untilDone(
	work: Work,
	requestedAt: string,
	onProgress: (seen: number, total: number | undefined) => void,
): Promise<RunRow | undefined> {
	const { sql, signal } = work;
	const begun = performance.now();
	for (;;) {
		const run = await readServingRun(sql, requestedAt);
		if (run?.ended_at) return run;
		if (run !== undefined) onProgress(run.seen, run.total ?? undefined);
		const holder = await findLockHolder(sql);
		if (holder === undefined) {
			const isDone = await doHere(
				work,
				async (synchroniser, take) => {
					const request = await take();
					// A synchroniser has done it meanwhile, or was interrupted by its end.
					if (request === undefined) return;
					await synchroniser.run({ full: request.kind === 'full', requestedAt: request.requestedAt });
				},
				onProgress,
			);
			if (isDone) return readServingRun(sql, requestedAt);
		} else if (run === undefined) await checkPatience(work, holder, begun, () => withdrawRequest(sql, requestedAt));
		await delay(pollIntervalMs, undefined, { signal }).catch(async () => {
			throw new CommandError(
				(await withdrawRequest(sql, requestedAt))
					? 'Interrupted: nothing was done.'
					: 'Interrupted, but the synchroniser goes on with it: see "contacts sync status".',
			);
		});
	}
}

/** @throws CommandError if nobody begins with a request, which is withdrawn then */
async function checkPatience(
	{ sql }: Work,
	holder: LockHolder,
	begun: number,
	withdraw: () => Promise<unknown>,
): Promise<void> {
	const waitedMs = performance.now() - begun;
	if (waitedMs < beginTimeoutMs) return;
	const [latest] = await readRuns(sql, 1);
	const isBusy = latest?.ended_at === null;
	if (isBusy && waitedMs < requestTimeoutMs) return;
	await withdraw();
	throw new CommandError(
		`Nobody has begun with it, though ${describeHolder(holder)} holds the lock of the synchroniser: ${
			isBusy ? `it is busy with a ${latest.kind} pass` : 'look at its log, or restart it'
		}. Nothing was done.`,
	);
}

/**
 * Does the work in this process.
 *
 * @param perform gets the synchroniser, and a function that takes the request which is stored
 * @returns false if another session has taken the lock meanwhile
 */
async function doHere(
	{ url, config, options, signal }: Work,
	perform: (synchroniser: Synchroniser, take: () => ReturnType<typeof takeRequest>) => Promise<unknown>,
	onProgress: (seen: number, total: number | undefined) => void = () => undefined,
): Promise<boolean> {
	if (!options.once)
		throw new CommandError('The synchroniser has ended meanwhile: start it, or say --once to do this here.');
	if (Array.isArray(config)) throw new UsageError(config.join('\n'));
	const session = await openSession(url);
	if (session === undefined) return false;
	try {
		const logger = createLogger({ name: 'contacts sync', level: 'silent' });
		const { remap = false } = options;
		const parts = { config, session, clock: systemClock, logger, signal, remap, onProgress };
		const synchroniser = await createSynchroniser(parts);
		await perform(synchroniser, () => session.run(takeRequest));
	} catch (error) {
		if (signal.aborted) throw new CommandError('Interrupted: a full pass continues from its last page next time.');
		if (error instanceof ConfigurationDiffersError) refuse(error.differences);
		// The row of the run says it.
		if (!(error instanceof Bitrix24Error || error instanceof IncompleteRunError)) throw error;
	} finally {
		await session.close();
	}
	return true;
}

/** Has one contact read again. */
async function syncContact(work: Work, id: number): Promise<void> {
	const { sql, options, signal } = work;
	const [before] = await readRuns(sql, 1);
	await requestContact(sql, id);
	const begun = performance.now();
	let outcome: EventOutcome | null | undefined = null;
	while (outcome === null) {
		const holder = await findLockHolder(sql);
		if (holder === undefined) await doHere(work, (synchroniser) => synchroniser.events());
		else await checkPatience(work, holder, begun, () => Promise.resolve());
		outcome = await takeContactOutcome(sql, id);
		const [run] = await readRuns(sql, 1);
		const isRefused = run?.kind === 'events' && run.id > (before?.id ?? 0) && run.ended_at && run.outcome !== 'done';
		if (outcome === null && isRefused) throw new CommandError(explainFailure(run, await readState(sql)));
		if (outcome === null)
			await delay(pollIntervalMs, undefined, { signal }).catch(() => {
				throw new CommandError('Interrupted: the contact is read again with the next events of the CRM.');
			});
	}
	const failure = outcome === undefined ? 'Somebody else has requested it too: run this again.' : failures[outcome];
	if (failure !== undefined) throw new CommandError(failure.replace('%', String(id)));
	const sentence =
		outcome === 'deleted' ? 'was deleted, because the CRM has deleted it' : 'is stored as the CRM has it';
	printResult({ bitrix_id: id, outcome }, `Contact ${id} ${sentence}.`, options);
}

const failures: Partial<Record<EventOutcome, string>> = {
	unknown: 'The CRM has no contact %.',
	denied: 'Contact % could not be read (ACCESS_DENIED); what is stored of it stays.',
	unread: 'Contact % could not be read; what is stored of it stays. The log of the synchroniser says why.',
};
