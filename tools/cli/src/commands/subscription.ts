import { type Command, Option } from 'commander';
import { chatIdOf, positiveInteger, timeOf } from '../arguments.js';
import { withDatabase, withTransaction } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { type SubscriptionImportOptions, subscriptionImport } from '../import/import-subscriptions.js';
import { type Context, examples, type OutputOptions } from '../output.js';
import { recordOperation } from '../projects.sql.js';
import { endSubscription, readSubscriptions, startSubscription } from '../subscriptions.sql.js';

interface Times {
	from?: string;
	until?: string;
	at?: string;
}

export function addSubscriptionCommands(program: Command, context: Context): void {
	const { environment, output } = context;
	const subscription = program
		.command('subscription')
		.description('direct subscriptions to the bot: while one is active, the chat’s user is not saved');

	subscription
		.command('start')
		.argument('<chat_id>')
		.description('start a subscription; by default now and open-ended')
		.option('--from <time>', 'since when, not in the future: a date (00:00 UTC) or an RFC 3339 time')
		.option('--until <time>', 'its planned end')
		.option('--json', 'print JSON')
		.addHelpText(
			'after',
			examples(
				'contacts subscription start 5550001',
				'contacts subscription start 5550001 --from 2026-01-01 --until 2027-07-01',
			),
		)
		.action(async (given: string, options: OutputOptions & Times) => {
			const chatId = chatIdOf(given);
			const [from, until] = [timeOf('--from', options.from), timeOf('--until', options.until)];
			const now = new Date().toISOString();
			if (from !== null && from > now) throw new UsageError('--from must not be in the future.');
			if (until !== null && until <= now) throw new UsageError('--until must be in the future.');
			await withTransaction(environment, async (sql) => {
				if (!(await startSubscription(sql, chatId, { from, until })))
					throw new CommandError(`Chat ${chatId} has an active subscription already.`);
				await recordOperation(sql, 'subscription started', { from, until });
			});
			output.result({ chat_id: chatId, state: 'active' }, `Chat ${chatId} is subscribed.`, options);
		});

	subscription
		.command('end')
		.argument('<chat_id>')
		.description('end the active subscription; by default now')
		.option('--at <time>', 'when it ends: a date (00:00 UTC) or an RFC 3339 time')
		.option('--json', 'print JSON')
		.addHelpText(
			'after',
			examples('contacts subscription end 5550001', 'contacts subscription end 5550001 --at 2027-07-01'),
		)
		.action(async (given: string, options: OutputOptions & Times) => {
			const chatId = chatIdOf(given);
			const at = timeOf('--at', options.at);
			await withTransaction(environment, async (sql) => {
				if (!(await endSubscription(sql, chatId, at)))
					throw new CommandError(`Chat ${chatId} has no active subscription.`);
				await recordOperation(sql, 'subscription ended', { at });
			});
			const isPlanned = at !== null && at > new Date().toISOString();
			output.result(
				{ chat_id: chatId, state: isPlanned ? 'active' : 'ended' },
				`The subscription of chat ${chatId} ${isPlanned ? `ends at ${at}` : 'has ended'}.`,
				options,
			);
		});

	subscription
		.command('list')
		.argument('[chat_id]', 'the subscription of this chat; without it, all active ones')
		.description('list subscriptions, newest first')
		.option('--limit <number>', 'maximum number of rows')
		.option('--json', 'print JSON')
		.addHelpText(
			'after',
			examples('contacts subscription list --limit 100', 'contacts subscription list -- -100200300'),
		)
		.action(async (given: string | undefined, { limit, ...options }: OutputOptions & { limit?: string }) => {
			const chatId = given === undefined ? undefined : chatIdOf(given);
			const rows = limit === undefined ? Number.MAX_SAFE_INTEGER : positiveInteger('--limit', limit);
			const columns = ['chat_id', 'state', 'started_at', 'ended_at'];
			await withDatabase(environment, (sql) => output.records(readSubscriptions(sql, chatId, rows), columns, options));
		});

	subscription
		.command('import')
		.argument('<file>', 'CSV or NDJSON, in UTF-8; - for standard input')
		.summary('add subscriptions from a file, all of them or none')
		.description(
			'Adds subscriptions from a file, all of them or none. Fields: chat_id (required), started_at (not in the future), ended_at (may be planned): dates (00:00 UTC) or RFC 3339 times. It takes what "subscription list --json" prints. A line without a start means that the chat is subscribed now, unless it has ended. A line is as old as its end, when that has passed, or else as its start: the newest line of a chat counts, unless something newer was reported. The others are counted, not applied. If a line is wrong, nothing is imported, and the wrong lines are reported.',
		)
		.addOption(new Option('--format <format>', 'if the name does not show it').choices(['csv', 'ndjson']))
		.option('--json', 'print JSON')
		.addHelpText(
			'after',
			examples(
				'contacts subscription import subscribers.csv',
				'contacts subscription list --json | contacts subscription import - --format ndjson',
			),
		)
		.action((path: string, options: SubscriptionImportOptions) => subscriptionImport(context, path, options));
}
