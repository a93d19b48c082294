import type { Sql } from '@contacts/common/database/client.js';
import { withDatabase } from '../connection.js';
import { CommandError, describeError, InterruptedError } from '../errors.js';
import { recordOperation } from '../sql/audit.sql.js';
import { type Context, counted, type Output, type OutputOptions } from '../terminal/output.js';
import { describeShare } from '../terminal/progress.js';
import type { Input } from './input.js';
import type { SourceRecord } from './lines.js';

/** Why a record is refused. The message names the field, never the value. */
export class RecordError extends Error {}

interface Checking<T> {
	/** @throws RecordError when the record is wrong */
	convert(fields: Record<string, unknown>, line: number): T;
	/** Gets what is refused. */
	counts: { records: number; refused: number };
	/** What is done, for the progress, such as `Checking: `. */
	label?: string;
	input: Pick<Input, 'shareRead'>;
	output: Pick<Output, 'note' | 'taken' | 'progress'>;
	signal: AbortSignal;
}

/**
 * Converts the records of a file. Each wrong one is refused with a note.
 *
 * @throws the reason of the signal, before the next record
 */
export async function* checked<T>(
	records: AsyncIterable<SourceRecord>,
	{ convert, counts, label = '', input, output, signal }: Checking<T>,
): AsyncGenerator<T> {
	const begunAt = performance.now();
	let good = 0;
	for await (const record of records) {
		signal.throwIfAborted();
		try {
			if ('error' in record) throw new RecordError(record.error);
			const converted = convert(record.fields, record.line);
			good++;
			const read = describeShare(input.shareRead(), performance.now() - begunAt);
			const all = counted(good + counts.refused, 'record');
			output.progress(`${label}${all}: ${good} good, ${counts.refused} refused${read}`);
			yield converted;
		} catch (error) {
			if (!(error instanceof RecordError)) throw error;
			counts.records++;
			counts.refused++;
			output.note(`line ${record.line}: ${error.message}`);
			await output.taken();
		}
	}
	// Nothing done is no success: an empty file is more often a failed export than what somebody meant to import.
	if (good + counts.refused === 0) throw new CommandError('The file has no records: nothing was imported.');
}

/** Parts of at most this size. What was good before a place that can't be read is one too; an interrupted import ends with a whole part. */
export async function* inParts<T>(records: AsyncIterable<T>, size: number): AsyncGenerator<readonly T[]> {
	let part: T[] = [];
	try {
		for await (const record of records) {
			part.push(record);
			if (part.length < size) continue;
			yield part;
			part = [];
		}
	} catch (error) {
		if (part.length > 0 && !(error instanceof InterruptedError)) yield part;
		throw error;
	}
	if (part.length > 0) yield part;
}

interface Import {
	/** For the audit log. */
	file: string;
	/** More about its beginning. */
	details?: object;
	/** For the audit log and as JSON. `accepted` ones are saved; without it, all are. */
	counts: { records: number; accepted?: number };
	/** The counts in words. */
	summary(): string;
	options: OutputOptions;
}

/**
 * Does an import between its two rows of the audit log, and prints what was imported, however it ends. One that is killed has saved
 * some records, and never records its counts.
 *
 * @throws what has ended it early
 */
export async function recorded(
	{ environment, output }: Context,
	sql: Sql,
	what: 'contacts' | 'subscriptions',
	{ file, details, counts, summary, options }: Import,
	save: () => Promise<void>,
): Promise<void> {
	await recordOperation(sql, `${what} import started`, { file, ...details });
	let failure: unknown;
	try {
		await save();
	} catch (error) {
		failure = error;
	}
	const result = failure === undefined ? counts : { ...counts, broken_off: true };
	const record = (connection: Sql) => recordOperation(connection, `${what} imported`, { file, ...result });
	// The connection of the import may be what has failed.
	const elsewhere = () => withDatabase(environment, record);
	await (failure === undefined ? record(sql).catch(elsewhere) : elsewhere()).catch((error) =>
		output.note(`The audit log lacks the end of this import: ${describeError(error, environment)}`),
	);
	const { records, accepted: saved = records } = counts;
	if (records > 0) output.result(result, summary(), options);
	if (failure instanceof InterruptedError && saved > 0)
		throw new InterruptedError(
			failure.signal,
			`Interrupted: the first ${counted(saved, 'good record')} are saved. Import the file again for the others.`,
		);
	if (failure !== undefined) throw failure;
}
