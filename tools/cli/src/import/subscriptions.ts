import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '@contacts/common/database/errors.js';
import { parseChatId, parseTime } from '../arguments.js';
import { longWorkSettings, withDatabase } from '../connection.js';
import { CommandError } from '../errors.js';
import { readClock } from '../sql/clock.sql.js';
import { type GivenSubscription, partLockTimeoutMs, saveSubscriptions } from '../sql/subscriptions.sql.js';
import { interruptible } from '../terminal/interrupt.js';
import { type Context, counted } from '../terminal/output.js';
import { type ReadOptions, readerFor } from './format.js';
import { withInput, withRereadable } from './input.js';
import { checked, inParts, RecordError, recorded } from './parts.js';

/** The columns of a file, or the fields of its records. `state` is what a list of subscriptions has beside the times: it is ignored. */
const columns = { names: ['chat_id', 'state', 'started_at', 'ended_at'], required: 'chat_id' };

/** The number of records that one statement saves. */
export const maxPart = 5000;

/** Checks all records of a file, and then saves them in parts, so that a report never waits long for a row. */
export async function importSubscriptions(context: Context, path: string, options: ReadOptions): Promise<void> {
	const { environment, stdin, output } = context;
	const read = readerFor(path, options.format);
	await interruptible((signal) =>
		withInput(path, stdin, (given) =>
			withDatabase(
				environment,
				async (sql) => {
					const now = await readClock(sql);
					const convert = (fields: Record<string, unknown>, line: number) => toSubscription(fields, line, now);
					await withRereadable(given, signal, async (input) => {
						const records = (label: string, counts: { records: number; refused: number }) =>
							checked(read(input.read(signal), columns), { convert, counts, label, input, output, signal });
						const found = { records: 0, refused: 0 };
						for await (const _ of records('Checking: ', found)) found.records++;
						if (found.refused > 0)
							throw new CommandError(`${found.refused} of ${found.records} records are wrong: nothing was imported.`);

						const counts = { records: 0, applied: 0, older: 0 };
						const summary = () =>
							`${counted(counts.records, 'record')}: ${counts.applied} applied, ${counts.older} older than what was reported or than another record.`;
						const work = { file: basename(path), details: { begun_at: now }, counts, summary, options };
						await recorded(context, sql, 'subscriptions', work, async () => {
							for await (const part of inParts(records('Saving: ', { records: 0, refused: 0 }), maxPart)) {
								const { applied, older } = await untilUnlocked(() => saveSubscriptions(sql, part, now));
								counts.records += part.length;
								counts.applied += applied;
								counts.older += older;
							}
							if (counts.records !== found.records)
								throw new CommandError('The file was changed while it was imported.');
						});
					});
				},
				longWorkSettings,
			),
		),
	);
}

/** Sends a part again for as long as other long work waits for a lock. @throws the error of the server when the row stays locked */
async function untilUnlocked<T>(save: () => Promise<T>): Promise<T> {
	const end = performance.now() + longWorkSettings.lock_timeout;
	for (;;) {
		try {
			return await save();
		} catch (error) {
			if (errorCode(error) !== '55P03' || performance.now() > end) throw error;
			// Reports of the other chats wait no longer than this between two attempts.
			await delay(partLockTimeoutMs);
		}
	}
}

function toSubscription(fields: Record<string, unknown>, line: number, now: string): GivenSubscription {
	if (Object.keys(fields).some((name) => !columns.names.includes(name)))
		throw new RecordError(`only ${columns.names.join(', ')} are known`);
	const given = fields.chat_id;
	const chat = typeof given === 'string' || typeof given === 'number' ? parseChatId(String(given)) : undefined;
	if (chat === undefined) throw new RecordError('chat_id is no integer other than 0, within ±9007199254740991');
	const [started, ended] = [fieldTime(fields, 'started_at'), fieldTime(fields, 'ended_at')];
	if (started !== null && started > now) throw new RecordError('started_at is in the future');
	if (started !== null && ended !== null && ended < started) throw new RecordError('ended_at is before started_at');
	return { line, chat_id: chat, started_at: started, ended_at: ended };
}

function fieldTime(fields: Record<string, unknown>, name: string): string | null {
	const time = parseTime(fields[name]);
	if (time === undefined) throw new RecordError(`${name} is neither a date nor a time like 2026-05-17T12:00:00Z`);
	return time;
}
