import { CommandError } from '../errors.js';
import { counted, type Output } from '../output.js';
import type { SourceRecord } from './read-records.js';

/** Why a record is refused. The message names the field, never the value. */
export class RecordError extends Error {}

export interface ReadResult {
	records: number;
	accepted: number;
	refused: number;
	/** Why not more was read, when the file has no records or can't be read to its end. */
	failure: CommandError | undefined;
}

/**
 * Converts the records of a file and saves them batch by batch, in constant memory. Each wrong record is refused with a note.
 *
 * @param convert throws RecordError when the record is wrong
 */
export async function saveRecords<T>(
	source: AsyncIterable<SourceRecord>,
	output: Pick<Output, 'note' | 'taken' | 'progress'>,
	maxBatch: number,
	convert: (fields: Record<string, unknown>, line: number) => T,
	save: (batch: readonly T[]) => Promise<void>,
): Promise<ReadResult> {
	let [accepted, refused] = [0, 0];
	let failure: CommandError | undefined;
	const batch: T[] = [];
	try {
		for await (const record of source) {
			try {
				if ('error' in record) throw new RecordError(record.error);
				batch.push(convert(record.fields, record.line));
				accepted++;
			} catch (error) {
				if (!(error instanceof RecordError)) throw error;
				refused++;
				output.note(`line ${record.line}: ${error.message}`);
				await output.taken();
			}
			output.progress(`${counted(accepted + refused, 'record')}: ${accepted} good, ${refused} refused`);
			if (batch.length === maxBatch) await save(batch.splice(0));
		}
		// Nothing done is no success: an empty file is more often a failed export than what somebody meant to import.
		if (accepted + refused === 0) throw new CommandError('The file has no records: nothing was imported.');
	} catch (error) {
		if (!(error instanceof CommandError)) throw error;
		failure = error;
	}
	if (batch.length > 0) await save(batch);
	return { records: accepted + refused, accepted, refused, failure };
}
