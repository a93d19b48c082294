import { basename } from 'node:path';
import type { Command } from 'commander';
import { chatId, parseChatId, parseTime, timeOf } from '../arguments.js';
import { withDatabase, withTransaction } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { formatOption, type ReadOptions, readRecords } from '../import/read-records.js';
import { RecordError, saveRecords } from '../import/save-records.js';
import { type Context, counted, examples, type OutputOptions } from '../output.js';
import { recordOperation } from '../projects.sql.js';
import {
	endSubscription,
	type GivenSubscription,
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

export function addSubscriptionCommands(program: Command, { environment, stdin, output }: Context): void {
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
			const now = new Date().toISOString();
			if (from !== null && from > now) throw new UsageError('--from must not be in the future.');
			if (until !== null && until <= now) throw new UsageError('--until must be in the future.');
			await withTransaction(environment, async (sql) => {
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
			await withTransaction(environment, async (sql) => {
				if (!(await endSubscription(sql, chat, at))) throw new CommandError(`Chat ${chat} has no active subscription.`);
				await recordOperation(sql, 'subscription ended', { at });
			});
			const isPlanned = at !== null && at > new Date().toISOString();
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
		.summary('add subscriptions from a file, all of them or none')
		.description(
			'Adds subscriptions from a file, all of them or none. Fields: chat_id (required), started_at (not in the future), ended_at (may be planned): dates (00:00 UTC) or RFC 3339 times. It takes what "subscription list --json" prints. A line without a start means that the chat is subscribed now, unless it has ended. A line is as old as its end, when that has passed, or else as its start: the newest line of a chat counts, unless something newer was reported. The others are counted, not applied. If a line is wrong, nothing is imported, and the wrong lines are reported.',
		)
		.addOption(formatOption())
		.option('--json', 'print JSON')
		.addHelpText('after', examples('contacts subscription import subscribers.csv'))
		.action(async (path: string, { format, ...options }: ReadOptions) => {
			const source = readRecords(path, format, columns, stdin);
			const summary = await withTransaction(environment, async (sql) => {
				const counts = { added: 0, changed: 0, unchanged: 0, older: 0 };
				const { records, refused, failure } = await saveRecords(
					source,
					output,
					maxBatch,
					toSubscription,
					async (batch) => {
						const saved = await saveSubscriptions(sql, batch);
						for (const name of ['added', 'changed', 'unchanged', 'older'] as const) counts[name] += saved[name];
					},
				);
				if (failure !== undefined) throw failure;
				if (refused > 0) throw new CommandError(`${refused} of ${records} records are wrong: nothing was imported.`);
				await recordOperation(sql, 'subscriptions imported', { file: basename(path), records, ...counts });
				return { records, ...counts };
			});
			const { records, added, changed, unchanged, older } = summary;
			output.result(
				summary,
				`${counted(records, 'record')}: ${counted(added, 'subscription')} new, ${changed} changed, ${unchanged} as stored, ${older} older than what is stored or than another record.`,
				options,
			);
		});
}

function toSubscription(fields: Record<string, unknown>, line: number): GivenSubscription {
	if (Object.keys(fields).some((name) => !columns.names.includes(name)))
		throw new RecordError(`only ${columns.names.join(', ')} are known`);
	const given = fields.chat_id;
	const chat = typeof given === 'string' || typeof given === 'number' ? parseChatId(String(given)) : undefined;
	if (chat === undefined) throw new RecordError('chat_id is no integer other than 0, within ±9007199254740991');
	const [started, ended] = [fieldTime(fields, 'started_at'), fieldTime(fields, 'ended_at')];
	if (started !== null && started > new Date().toISOString()) throw new RecordError('started_at is in the future');
	if (started !== null && ended !== null && ended < started) throw new RecordError('ended_at is before started_at');
	return { line, chat_id: chat, started_at: started, ended_at: ended };
}

function fieldTime(fields: Record<string, unknown>, name: string): string | null {
	const time = parseTime(fields[name]);
	if (time === undefined) throw new RecordError(`${name} is neither a date nor a time like 2026-05-17T12:00:00Z`);
	return time;
}
