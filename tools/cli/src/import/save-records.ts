import type { Sql } from '@contacts/common/database/client.js';
import { withDatabase } from '../connection.js';
import { CommandError, describeError, InterruptedError } from '../errors.js';
import { type Context, counted, type Output } from '../output.js';
import { describePart } from '../progress.js';
import { type Operation, recordOperation } from '../projects.sql.js';
import type { SourceRecord } from './lines.js';

/** Why a record is refused. The message names the field, never the value. */
export class RecordError extends Error {}

export interface ReadResult {
	records: number;
	/** The good ones, all of which are saved. */
	accepted: number;
	refused: number;
	/** Why the rest was not read or not saved. */
	failure: unknown;
}

interface SaveOptions<T> {
	/** What is done, for the progress, such as `Checking: `. */
	label?: string;
	/** The part of the file that was read. */
	part(): number | undefined;
	/** The number of records that are saved at once. */
	maxBatch: number;
	/** @throws RecordError when the record is wrong */
	convert(fields: Record<string, unknown>, line: number): T;
	save(batch: readonly T[]): Promise<void>;
	/** Ends the work after a whole batch. */
	signal: AbortSignal;
}

/** Converts the records of a file and saves them batch by batch, in constant memory. Each wrong record is refused with a note. */
export async function saveRecords<T>(
	source: AsyncIterable<SourceRecord>,
	output: Pick<Output, 'note' | 'taken' | 'progress'>,
	{ label = '', part, maxBatch, convert, save, signal }: SaveOptions<T>,
): Promise<ReadResult> {
	const startedAt = performance.now();
	let [accepted, refused] = [0, 0];
	let failure: unknown;
	const batch: T[] = [];
	async function saveBatch(): Promise<void> {
		const whole = batch.splice(0);
		await save(whole);
		accepted += whole.length;
	}
	try {
		for await (const record of source) {
			signal.throwIfAborted();
			try {
				if ('error' in record) throw new RecordError(record.error);
				batch.push(convert(record.fields, record.line));
			} catch (error) {
				if (!(error instanceof RecordError)) throw error;
				refused++;
				output.note(`line ${record.line}: ${error.message}`);
				await output.taken();
			}
			const good = accepted + batch.length;
			const read = describePart(part(), performance.now() - startedAt);
			output.progress(`${label}${counted(good + refused, 'record')}: ${good} good, ${refused} refused${read}`);
			if (batch.length === maxBatch) await saveBatch();
		}
		// Nothing done is no success: an empty file is more often a failed export than what somebody meant to import.
		if (accepted + batch.length + refused === 0)
			throw new CommandError('The file has no records: nothing was imported.');
		if (batch.length > 0) signal.throwIfAborted();
	} catch (error) {
		const isInterrupted = signal.aborted && (error === signal.reason || (error as Error).name === 'AbortError');
		failure = isInterrupted ? signal.reason : error;
		// An interrupted import ends with a whole batch. Else what was good before a place that can't be read is saved.
		if (isInterrupted) batch.length = 0;
	}
	if (batch.length > 0) await saveBatch().catch((error) => (failure ??= error));
	return { records: accepted + refused, accepted, refused, failure };
}

/** The numbers of an import, for the audit log and as JSON. */
export const withOutcome = (counts: object, failure: unknown): object =>
	failure === undefined ? counts : { ...counts, broken_off: true };

/**
 * Records in the audit log how an import has ended. After a failure it uses another connection: that of the import may be what has
 * failed. If that is impossible, the counts of the import are printed all the same.
 */
export async function recordEnd(
	{ environment, output }: Context,
	sql: Sql,
	operation: Operation,
	counts: object,
	failure: unknown,
): Promise<void> {
	const record = (connection: Sql) => recordOperation(connection, operation, withOutcome(counts, failure));
	const elsewhere = () => withDatabase(environment, record);
	const recorded = failure === undefined ? record(sql).catch(elsewhere) : elsewhere();
	await recorded.catch((error) =>
		output.note(`The audit log lacks the end of this import: ${describeError(error, environment)}`),
	);
}

/** The failure of an import in which this many records were saved. */
export const withCount = (failure: unknown, saved: number): unknown =>
	failure instanceof InterruptedError && saved > 0
		? new InterruptedError(
				failure.signal,
				`Interrupted: the first ${counted(saved, 'good record')} are saved. Import the file again for the others.`,
			)
		: failure;
