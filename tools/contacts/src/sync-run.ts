import { ConfigError, readVariables } from '@contacts/common/config.js';
import { createLogger } from '@contacts/common/logger.js';
import { Bitrix24Error } from '@contacts/company-contacts/sync/bitrix24/errors.js';
import { systemClock } from '@contacts/company-contacts/sync/clock.js';
import { type CrmConfig, crmVariables, toCrmConfig } from '@contacts/company-contacts/sync/config.js';
import { synchroniseForEver } from '@contacts/company-contacts/sync/loop.js';
import { openSession, type Session } from '@contacts/company-contacts/sync/session.js';
import { readRuns, readState } from '@contacts/company-contacts/sync/sync.sql.js';
import { createSynchroniser, type Outcome, type Synchroniser } from '@contacts/company-contacts/sync/synchroniser.js';
import { findDatabaseUrl, withDatabase } from './connection.js';
import { adviceFor } from './crm-advice.js';
import { Failure, UsageError } from './failure.js';
import { type OutputOptions, print, printRecords, printResult } from './output.js';
import { createProgress, type Progress } from './progress.js';
import { describeState } from './sync-status.js';

export interface SyncOptions extends OutputOptions {
	once?: boolean;
	full?: boolean;
	dryRun?: boolean;
	contact?: string;
	confirmMassDelete?: boolean;
}

/** Seconds between two passes of a command that goes on for ever. */
const interval = 300;

/** `contacts sync`: once, or for ever. */
export async function runSync(environment: NodeJS.ProcessEnv, options: SyncOptions): Promise<void> {
	const config = readConfig(environment);
	const once = options.once || options.dryRun || options.contact !== undefined || options.confirmMassDelete;
	const url = await findDatabaseUrl(environment);
	if (once || options.full) await runOnce(url, config, options);
	if (!once) await runForEver(url, config);
}

/** `contacts sync status` */
export async function printSyncStatus(environment: NodeJS.ProcessEnv, options: OutputOptions): Promise<void> {
	const { state, runs } = await withDatabase(environment, async (sql) => ({
		state: await readState(sql),
		runs: await readRuns(sql, 5),
	}));
	if (options.json) return printResult({ state, runs }, '', options);
	print(...describeState(state, Date.now()).split('\n'), '');
	printRecords(
		runs,
		['kind', 'begun_at', 'ended_at', 'outcome', 'seen', 'created', 'changed', 'deleted', 'requests'],
		options,
	);
}

function readConfig(environment: NodeJS.ProcessEnv): CrmConfig {
	try {
		const config = toCrmConfig(readVariables(crmVariables, environment));
		if (Array.isArray(config)) throw new ConfigError(config);
		return config;
	} catch (error) {
		if (error instanceof ConfigError) throw new UsageError(error.lines.join('\n'));
		throw error;
	}
}

async function runOnce(url: string, config: CrmConfig, options: SyncOptions): Promise<void> {
	const session = await openSession(url);
	if (session === undefined) {
		printResult({ working: false }, 'Another synchroniser works on this database: nothing was done.', options);
		return;
	}
	let progress: Progress | undefined;
	try {
		const synchroniser = await createSynchroniser({
			config,
			session,
			clock: systemClock,
			logger: createLogger({ name: 'contacts sync', level: 'silent' }),
			onProgress(seen, total) {
				progress ??= createProgress(total ?? seen);
				progress.update(seen, seen);
			},
		});
		const outcome = await perform(synchroniser, options);
		progress?.stop();
		progress = undefined;
		printResult(outcome, sentence(outcome, options), options);
		await failOnAlarm(session);
	} catch (error) {
		progress?.stop();
		if (error instanceof Bitrix24Error) throw new Failure(explain(error));
		throw error;
	} finally {
		await session.close();
	}
}

function perform(synchroniser: Synchroniser, options: SyncOptions): Promise<Outcome> {
	if (options.dryRun) return synchroniser.dryRun();
	if (options.contact !== undefined) return synchroniser.contact(Number(options.contact));
	const confirmMassDelete = options.confirmMassDelete ?? false;
	return synchroniser.pass({ full: (options.full ?? false) || confirmMassDelete, confirmMassDelete });
}

/** What a pass has held back leaves the mirror incomplete: that is no success. */
async function failOnAlarm(session: Session): Promise<void> {
	const { alarm } = await session.run(readState);
	if (alarm?.startsWith('mass_delete')) throw new Failure(alarm.slice(alarm.indexOf(':') + 2));
}

async function runForEver(url: string, config: CrmConfig): Promise<void> {
	const stop = new AbortController();
	for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
	await synchroniseForEver({
		databaseUrl: url,
		config,
		interval: interval * 1000,
		clock: systemClock,
		logger: createLogger({ name: 'contacts sync', level: 'info' }),
		signal: stop.signal,
		onWorking: () => undefined,
		onWaiting() {
			print('Another synchroniser works on this database: nothing was done.');
			stop.abort();
		},
	});
}

function sentence({ kind, seen, created, changed, deleted, requests }: Outcome, { dryRun }: SyncOptions): string {
	const what = dryRun ? 'A full pass would make' : `${kind[0]?.toUpperCase()}${kind.slice(1)} pass:`;
	return `${what} ${created} new, ${changed} changed, ${deleted} deleted, of ${seen} contacts read in ${requests} requests.`;
}

function explain({ code, method, until }: Bitrix24Error): string {
	const when = until === undefined ? '' : `, not before ${new Date(until).toISOString()}`;
	return `The portal refused ${method} with ${code}: ${adviceFor(code)}${when}. Nothing was deleted.`;
}
