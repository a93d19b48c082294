import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '@contacts/common/database/errors.js';
import type { Command } from 'commander';
import { chatId, parseChatId, parseTime, timeOf } from '../arguments.js';
import { readClock } from '../clock.sql.js';
import { longWorkSettings, withDatabase, withTransaction } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { formatOption, type ReadOptions, type RecordReader, readerFor } from '../import/format.js';
import { type Input, withInput, withRereadable } from '../import/input.js';
import { RecordError, recordEnd, saveRecords, withCount, withOutcome } from '../import/save-records.js';
import { interruptible } from '../interrupt.js';
import { type Context, counted, examples, type OutputOptions } from '../output.js';
import { recordOperation } from '../projects.sql.js';
import {
	endSubscription,
	type GivenSubscription,
	partLockTimeoutMs,
	readSubscriptions,
	saveSubscriptions,
	startSubscription,
} from '../subscriptions.sql.js';

/** The columns of a file, or the fields of its records. `state` is what a list of subscriptions has beside the times: it is ignored. */
const columns = { names: ['chat_id', 'state', 'started_at', 'ended_at'], required: 'chat_id' };

/** The number of records that one statement saves. */
const maxBatch = 5000;

/** RFC 3339, in UTC. */
interface Times {
	from?: string | null;
	until?: string | null;
	at?: string | null;
}

export function addSubscriptionCommands(program: Command, context: Context): void {
	const { environment, output } = context;
	const subscription = program
		.command('subscription')
		.description('direct subscriptions to the bot: while one is active, the chat’s user is not saved');

	subscription
		.command('start')
		.argument('<chat_id>', 'the chat', chatId)
		.description('start a subscription; by default now and open-ended')
		.option('--from <time>', 'since when, not in the future: a date (00:00 UTC) or an RFC 3339 time', timeOf('--from'))
		.option('--until <time>', 'its planned end', timeOf('--until'))
		.addHelpText('after', examples('contacts subscription start 5550001 --from 2026-01-01 --until 2027-07-01'))
		.action(async (chat: number, { from = null, until = null }: Times) => {
			await withTransaction(environment, async (sql) => {
				const now = await readClock(sql);
				if (from !== null && from > now) throw new UsageError('--from must not be in the future.');
				if (until !== null && until <= now) throw new UsageError('--until must be in the future.');
				if (!(await startSubscription(sql, chat, { from, until })))
					throw new CommandError(`Chat ${chat} has an active subscription already.`);
				await recordOperation(sql, 'subscription started', { from, until });
			});
			output.print(`Chat ${chat} is subscribed.`);
		});

	subscription
		.command('end')
		.argument('<chat_id>', 'the chat', chatId)
		.description('end the active subscription; by default now')
		.option('--at <time>', 'when it ends: a date (00:00 UTC) or an RFC 3339 time', timeOf('--at'))
		.addHelpText('after', examples('contacts subscription end 5550001 --at 2027-07-01'))
		.action(async (chat: number, { at = null }: Times) => {
			const isPlanned = await withTransaction(environment, async (sql) => {
				if (!(await endSubscription(sql, chat, at))) throw new CommandError(`Chat ${chat} has no active subscription.`);
				await recordOperation(sql, 'subscription ended', { at });
				return at !== null && at > (await readClock(sql));
			});
			output.print(`The subscription of chat ${chat} ${isPlanned ? `ends at ${at}` : 'has ended'}.`);
		});

	subscription
		.command('list')
		.argument('[chat_id]', 'the subscription of this chat; without it, all active ones', chatId)
		.description('list subscriptions, newest first')
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts subscription list', 'contacts subscription list -- -100200300'))
		.action(async (chat: number | undefined, options: OutputOptions) => {
			const rows = await withDatabase(environment, (sql) => readSubscriptions(sql, chat));
			output.records(rows, ['chat_id', 'state', 'started_at', 'ended_at'], options);
		});

	subscription
		.command('import')
		.argument('<file>', 'CSV or NDJSON, in UTF-8; - for standard input')
		.summary('add subscriptions from a file')
		.description(
			`Add subscriptions from a file. Fields: chat_id (required), started_at (not in the future), ended_at (may be planned): dates (00:00 UTC) or RFC 3339 times. It takes what "subscription list --json" prints. All lines are checked first: if one is wrong, nothing is imported, and the wrong lines are reported. Then ${maxBatch} lines at a time are saved. An import that was interrupted or has failed can be repeated: what it has saved stays as it is.
A line without a start means that the chat is subscribed now, unless it has ended. Now is the moment at which the import began: a report that was acknowledged since then stays. A line is as old as its end, when that has passed, or else as its start: the newest line of a chat counts, unless something newer was reported. The others are counted, not applied. An import that is repeated has a new beginning, from which its lines without times count.`,
		)
		.addOption(formatOption())
		.option('--json', 'print JSON; "broken_off": true means that not all lines were saved')
		.addHelpText('after', examples('contacts subscription import subscribers.csv'))
		.action(async (path: string, { format, ...options }: ReadOptions) => {
			const read = readerFor(path, format);
			const { failure, ...counts } = await withInput(path, context.stdin, (input) =>
				interruptible((signal) => importSubscriptions(context, { file: basename(path), input, signal, read })),
			);
			const { records, applied, older } = counts;
			const sentence = `${counted(records, 'record')}: ${applied} applied, ${older} older than what was reported or than another record.`;
			if (records > 0) output.result(withOutcome(counts, failure), sentence, options);
			if (failure !== undefined) throw failure;
		});
}

interface SubscriptionImport {
	/** For the audit log. */
	file: string;
	input: Input;
	signal: AbortSignal;
	read: RecordReader;
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

/** Checks all lines, and then saves them in parts, so that a report never waits long for a row. */
async function importSubscriptions(context: Context, { file, input, signal, read }: SubscriptionImport) {
	const { environment, output } = context;
	return withDatabase(
		environment,
		async (sql) => {
			const now = await readClock(sql);
			return withRereadable(input, signal, async (input) => {
				const counts = { records: 0, applied: 0, older: 0 };
				const readAll = (label: string, save: (batch: readonly GivenSubscription[]) => Promise<void>) =>
					saveRecords(read(input.read(signal), columns), output, {
						...{
							label,
							part: input.part,
							maxBatch,
							convert: (fields, line) => toSubscription(fields, line, now),
							save,
							signal,
						},
					});

				const checked = await readAll('Checking: ', async () => undefined);
				if (checked.failure !== undefined) throw checked.failure;
				if (checked.refused > 0)
					throw new CommandError(`${checked.refused} of ${checked.records} records are wrong: nothing was imported.`);
				await recordOperation(sql, 'subscriptions import started', { file, begun_at: now });
				const saved = await readAll('Saving: ', async (batch) => {
					const { applied, older } = await untilUnlocked(() => saveSubscriptions(sql, batch, now));
					counts.records += batch.length;
					counts.applied += applied;
					counts.older += older;
				});
				const isChanged = saved.failure === undefined && saved.accepted !== checked.accepted;
				const failure = isChanged
					? new CommandError('The file was changed while it was imported.')
					: withCount(saved.failure, counts.records);
				await recordEnd(context, sql, 'subscriptions imported', { file, ...counts }, failure);
				return { ...counts, failure };
			});
		},
		longWorkSettings,
	);
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
