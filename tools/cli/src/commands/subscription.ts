import { Option } from 'commander';
import type { Command } from '../command.js';
import { withDatabase, withTransaction } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import type { Format } from '../import/source-file.js';
import { parseChatId, parseLimit } from '../numbers.js';
import { type OutputOptions, printRecords, printResult } from '../output.js';
import { recordOperation } from '../projects.sql.js';
import { endSubscription, readSubscriptions, startSubscription } from '../subscriptions.sql.js';

interface Times {
	from?: string;
	until?: string;
	at?: string;
}

export function addSubscriptionCommands(program: Command, environment: NodeJS.ProcessEnv): void {
	const subscription = program
		.command('subscription')
		.description('direct subscriptions to the bot: while one is active, the chat’s user is not saved');

	subscription
		.command('start')
		.argument('<chat_id>')
		.description('start a subscription; by default now and open-ended')
		.option('--from <time>', 'since when, not in the future: a date (00:00 UTC) or an RFC 3339 time')
		.option('--until <time>', 'its planned end')
		.option('--json', 'print the result as JSON')
		.examples(
			'contacts subscription start 5550001',
			'contacts subscription start 5550001 --from 2026-01-01 --until 2027-07-01',
		)
		.action(async (given: string, options: OutputOptions & Times) => {
			const chatId = chatIdOf(given);
			const [from, until] = [await timeOf('--from', options.from), await timeOf('--until', options.until)];
			const now = new Date().toISOString();
			if (from !== null && from > now) throw new UsageError('--from must not be in the future.');
			if (until !== null && until <= now) throw new UsageError('--until must be in the future.');
			await withTransaction(environment, async (sql) => {
				if (!(await startSubscription(sql, chatId, { from, until })))
					throw new CommandError(`Chat ${chatId} has an active subscription already.`);
				await recordOperation(sql, 'subscription started', { from, until });
			});
			printResult({ chat_id: chatId, state: 'active' }, `Chat ${chatId} is subscribed.`, options);
		});

	subscription
		.command('end')
		.argument('<chat_id>')
		.description('end the active subscription; by default now')
		.option('--at <time>', 'when it ends: a date (00:00 UTC) or an RFC 3339 time')
		.option('--json', 'print the result as JSON')
		.examples('contacts subscription end 5550001', 'contacts subscription end 5550001 --at 2027-07-01')
		.action(async (given: string, options: OutputOptions & Times) => {
			const chatId = chatIdOf(given);
			const at = await timeOf('--at', options.at);
			await withTransaction(environment, async (sql) => {
				if (!(await endSubscription(sql, chatId, at)))
					throw new CommandError(`Chat ${chatId} has no active subscription.`);
				await recordOperation(sql, 'subscription ended', { at });
			});
			const isPlanned = at !== null && at > new Date().toISOString();
			printResult(
				{ chat_id: chatId, state: isPlanned ? 'active' : 'ended' },
				`The subscription of chat ${chatId} ${isPlanned ? `ends at ${at}` : 'has ended'}.`,
				options,
			);
		});

	subscription
		.command('list')
		.argument('[chat_id]', 'the subscription of this chat; without it, all active ones')
		.description('list subscriptions, newest first; times are in UTC')
		.option('--limit <number>', 'maximum number of rows')
		.option('--json', 'print the records as JSON')
		.examples('contacts subscription list --limit 100', 'contacts subscription list -- -100200300')
		.action(async (given: string | undefined, { limit, ...options }: OutputOptions & { limit?: string }) => {
			const chatId = given === undefined ? undefined : chatIdOf(given);
			const rows = limit === undefined ? Number.MAX_SAFE_INTEGER : parseLimit(limit);
			await withDatabase(environment, (sql) =>
				printRecords(readSubscriptions(sql, chatId, rows), ['chat_id', 'state', 'started_at', 'ended_at'], options),
			);
		});

	subscription
		.command('import')
		.argument('<file>', 'CSV or NDJSON, in UTF-8; - for standard input')
		.description('add subscriptions from a file, all of them or none')
		.addOption(
			new Option('--format <format>', 'format of the file, if its name does not show it').choices(['csv', 'ndjson']),
		)
		.option('--json', 'print the summary as JSON')
		.notes(
			'Fields: chat_id (required), started_at (not in the future), ended_at (may be planned): dates (00:00 UTC) or RFC 3339 times. It takes what "subscription list --json" prints.',
			'A line without a start means that the chat is subscribed now, unless it has ended. A chat has one subscription. A line is as old as its end, when that has passed, or else as its start: the newest line of a chat counts, unless something newer was reported. The others are counted, not applied. If a line is wrong, nothing is imported, and the wrong lines are reported. A file without lines fails.',
		)
		.examples(
			'contacts subscription import subscribers.csv',
			'contacts subscription list --json | contacts subscription import - --format ndjson',
			'contacts subscription import subscribers.txt --format ndjson',
		)
		.action(async (path: string, options: OutputOptions & { format?: Format }) => {
			const { runSubscriptionImport } = await import('../import/import-subscriptions.js');
			await runSubscriptionImport(environment, path, options);
		});
}

function chatIdOf(given: string): number {
	const chatId = parseChatId(given);
	if (chatId === undefined) throw new UsageError('A chat_id is an integer other than 0, within ±9007199254740991.');
	return chatId;
}

/** @returns null without a value */
async function timeOf(option: string, given: string | undefined): Promise<string | null> {
	const { parseTime } = await import('../import/import-subscriptions.js');
	const time = parseTime(given);
	if (time === undefined || given === '')
		throw new UsageError(`${option} takes a date like 2027-01-31 or a time like 2027-01-31T12:00:00Z.`);
	return time;
}
