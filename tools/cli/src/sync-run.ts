import { systemClock } from '@contacts/bitrix24/clock.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import type { CrmConfig } from '@contacts/company-contacts/sync/config.js';
import { synchroniseForEver } from '@contacts/company-contacts/sync/loop.js';
import { mirrorConfiguration } from '@contacts/company-contacts/sync/mirror-configuration.js';
import { perform, type RequestResult, toRequestError } from '@contacts/company-contacts/sync/requests.js';
import type { SyncRequest } from '@contacts/company-contacts/sync/requests.sql.js';
import { openSession, type Session } from '@contacts/company-contacts/sync/session.js';
import { describeHolder } from '@contacts/company-contacts/sync/session.sql.js';
import { createSynchroniser, type Outcome } from '@contacts/company-contacts/sync/synchroniser.js';
import { findDatabaseUrl, withDatabase } from './connection.js';
import { explainRequestError } from './crm-advice.js';
import { readCrmConfig } from './crm-config.js';
import { CommandError, UsageError } from './errors.js';
import { type OutputOptions, printNote, printResult } from './output.js';
import { createProgress, type Progress } from './progress.js';
import { recordOperation } from './projects.sql.js';
import { askSynchroniser } from './sync-request.js';

export interface SyncOptions extends OutputOptions {
	/** Run until the work is done, not until the command is stopped. */
	once?: boolean;
	full?: boolean;
	dryRun?: boolean;
	contact?: string;
	confirmMassDelete?: boolean;
	remap?: boolean;
}

/** `contacts sync`: once, or continuously. */
export async function runSync(environment: NodeJS.ProcessEnv, options: SyncOptions): Promise<void> {
	const config = readCrmConfig(environment);
	if (Array.isArray(config)) throw new UsageError(config.join('\n'));
	const url = await findDatabaseUrl(environment);
	if (!options.once && !options.full) return runForEver(url, config);
	if (options.confirmMassDelete || options.remap) {
		await withDatabase(environment, async (sql) => {
			if (options.confirmMassDelete) await recordOperation(sql, 'mass deletion confirmed', {});
			if (options.remap) await recordOperation(sql, 'new configuration confirmed', mirrorConfiguration(config));
		});
	}
	const isServed = await runOnce(environment, url, config, options);
	// The synchroniser that did it continues anyway.
	if (!options.once && !isServed) await runForEver(url, config);
}

/** @returns whether a running synchroniser did it instead of this command */
async function runOnce(
	environment: NodeJS.ProcessEnv,
	url: string,
	config: CrmConfig,
	options: SyncOptions,
): Promise<boolean> {
	let progress: Progress | undefined;
	const onProgress = (seen: number, total: number | undefined) => {
		progress ??= createProgress(total ?? seen);
		progress.update(seen, seen);
	};
	const request = requestOf(options);
	let result: RequestResult | undefined;
	let isServed = false;
	try {
		let session = await openSession(url);
		if (session === undefined) {
			const outcome = await ask(environment, url, config, request, onProgress);
			if ('run' in outcome) session = outcome;
			else {
				result = outcome;
				isServed = true;
			}
		}
		if (session !== undefined) result = await runHere(session, config, request, options, onProgress);
	} finally {
		progress?.stop();
	}
	if (result !== undefined) report(result, options);
	return isServed;
}

function requestOf(options: SyncOptions): SyncRequest {
	const { contact, confirmMassDelete = false } = options;
	const full = options.full || options.remap || confirmMassDelete;
	const kind = options.dryRun ? 'dry-run' : contact !== undefined ? 'contact' : full ? 'full' : 'pass';
	return { kind, bitrix_id: contact === undefined ? null : Number(contact), confirm_mass_delete: confirmMassDelete };
}

function ask(
	environment: NodeJS.ProcessEnv,
	url: string,
	config: CrmConfig,
	request: SyncRequest,
	onProgress: (seen: number, total: number | undefined) => void,
): Promise<RequestResult | Session> {
	const stop = new AbortController();
	const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
	const onSignal = () => stop.abort();
	for (const signal of signals) process.on(signal, onSignal);
	return withDatabase(environment, (sql) =>
		askSynchroniser({
			sql,
			url,
			request,
			configuration: mirrorConfiguration(config),
			clock: systemClock,
			signal: stop.signal,
			onProgress,
			onBusy: (what) => printNote(`The synchroniser is busy with a pass (${what}): this comes after it.`),
		}),
	).finally(() => {
		for (const signal of signals) process.removeListener(signal, onSignal);
	});
}

async function runHere(
	session: Session,
	config: CrmConfig,
	request: SyncRequest,
	{ remap = false }: SyncOptions,
	onProgress: (seen: number, total: number | undefined) => void,
): Promise<RequestResult> {
	try {
		const logger = createLogger({ name: 'contacts sync', level: 'silent' });
		const synchroniser = await createSynchroniser({ config, session, clock: systemClock, logger, remap, onProgress });
		return await perform(synchroniser, session, request);
	} catch (error) {
		const explained = toRequestError(error);
		if (explained === undefined) throw error;
		return { error: explained };
	} finally {
		await session.close();
	}
}

/** A pass that held back deletions leaves the mirror incomplete, which is not a success. */
function report(result: RequestResult, options: SyncOptions): void {
	if ('error' in result) throw new CommandError(explainRequestError(result.error));
	printResult(result.outcome, sentence(result.outcome, options), options);
	if (result.heldBack !== null) throw new CommandError(result.heldBack);
}

async function runForEver(url: string, config: CrmConfig): Promise<void> {
	const stop = new AbortController();
	for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
	let failure: CommandError | undefined;
	const fail = (message: string) => {
		failure = new CommandError(message);
		stop.abort();
	};
	await synchroniseForEver({
		databaseUrl: url,
		config,
		clock: systemClock,
		logger: createLogger({ name: 'contacts sync', level: 'info' }),
		signal: stop.signal,
		onWorking: () => undefined,
		onWaiting: (holder) =>
			fail(
				`A synchroniser works on this database already. "contacts sync --once" has it make a pass at once. The lock is held by ${describeHolder(holder)}.`,
			),
		onConfigurationDiffers: ({ differences }) => fail(explainRequestError({ reason: 'configuration', differences })),
	});
	if (failure !== undefined) throw failure;
}

function sentence({ kind, seen, created, changed, deleted, requests }: Outcome, { dryRun }: SyncOptions): string {
	const what = dryRun ? 'A full pass would make' : `${kind[0]?.toUpperCase()}${kind.slice(1)} pass:`;
	return `${what} ${created} new, ${changed} changed, ${deleted} deleted, of ${seen} contacts read in ${requests} requests.`;
}
