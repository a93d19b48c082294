import type { Command } from 'commander';
import { chatId, timeOf } from '../arguments.js';
import { withDatabase, withTransaction } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { formatOption, type ReadOptions } from '../import/format.js';
import { importSubscriptions, maxPart } from '../import/subscriptions.js';
import { recordOperation } from '../sql/audit.sql.js';
import { readClock } from '../sql/clock.sql.js';
import { endSubscription, readSubscriptions, startSubscription } from '../sql/subscriptions.sql.js';
import { type Context, examples, type OutputOptions } from '../terminal/output.js';

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
			`Add subscriptions from a file. Fields: chat_id (required), started_at (not in the future), ended_at (may be planned): dates (00:00 UTC) or RFC 3339 times. It takes what "subscription list --json" prints. All lines are checked first: if one is wrong, nothing is imported, and the wrong lines are reported. Then ${maxPart} lines at a time are saved. An import that was interrupted or has failed can be repeated: what it has saved stays as it is.
A line without a start means that the chat is subscribed now, unless it has ended. Now is the moment at which the import began: a report that was acknowledged since then stays. A line is as old as its end, when that has passed, or else as its start: the newest line of a chat counts, unless something newer was reported. The others are counted, not applied. An import that is repeated has a new beginning, from which its lines without times count.`,
		)
		.addOption(formatOption())
		.option('--json', 'print JSON; "broken_off": true means that not all lines were saved')
		.addHelpText('after', examples('contacts subscription import subscribers.csv'))
		.action((path: string, options: ReadOptions) => importSubscriptions(context, path, options));
}
