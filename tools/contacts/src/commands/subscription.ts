import { basename } from 'node:path';
import { recordOperation } from '@contacts/common/auth/projects.sql.js';
import { Option } from 'commander';
import type { Command } from '../command.js';
import { withDatabase, withTransaction } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { type OutputOptions, printNote, printRecords, printResult } from '../output.js';
import { endSubscription, parseChatId, readSubscriptions, startSubscription } from '../subscriptions.sql.js';

interface Times {
	from?: string;
	until?: string;
	at?: string;
}

const formats = ['csv', 'ndjson'] as const;

interface ImportOptions extends OutputOptions {
	format?: (typeof formats)[number];
}

export function addSubscriptionCommands(program: Command, environment: NodeJS.ProcessEnv): void {
	const subscription = program
		.command('subscription')
		.description('direct subscriptions to the bot: while one is active, the chat’s user is not saved');

	subscription
		.command('start')
		.argument('<chat_id>')
		.description('start a subscription; by default now and open-ended')
		.option('--from <time>', 'when it begins: a date (00:00 UTC) or an RFC 3339 time')
		.option('--until <time>', 'when it ends')
		.option('--json', 'print the result as JSON')
		.examples(
			'contacts subscription start 5550001',
			'contacts subscription start 5550001 --from 2027-01-01 --until 2027-07-01',
		)
		.action(async (given: string, options: OutputOptions & Times) => {
			const chatId = chatIdOf(given);
			const [from, until] = [await timeOf('--from', options.from), await timeOf('--until', options.until)];
			const begins = from ?? new Date().toISOString();
			if (until !== null && until <= begins) throw new UsageError('--until must be after the start.');
			const isPlanned = from !== null && from > new Date().toISOString();
			await withTransaction(environment, async (sql) => {
				if (!(await startSubscription(sql, chatId, { from, until })))
					throw new CommandError(
						`Chat ${chatId} has ${isPlanned ? 'a' : 'an active'} subscription already${isPlanned ? ' in that time' : ''}.`,
					);
				await recordOperation(sql, 'subscription started', { from, until });
			});
			const state = isPlanned ? 'planned' : 'active';
			const sentence = isPlanned ? `will be subscribed from ${from} on` : 'is subscribed';
			printResult({ chat_id: chatId, state }, `Chat ${chatId} ${sentence}.`, options);
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
		.argument('[chat_id]', 'all subscriptions of this chat; without it, all active ones')
		.description('list subscriptions, newest first')
		.option('--limit <number>', 'maximum number of rows')
		.option('--json', 'print the records as JSON')
		.examples('contacts subscription list --limit 100', 'contacts subscription list -- -100200300')
		.action(async (given: string | undefined, { limit, ...options }: OutputOptions & { limit?: string }) => {
			const chatId = given === undefined ? undefined : chatIdOf(given);
			if (limit !== undefined && !/^[1-9][0-9]{0,8}$/.test(limit))
				throw new UsageError('--limit takes a positive integer.');
			const rows = limit === undefined ? Number.MAX_SAFE_INTEGER : Number(limit);
			await withDatabase(environment, (sql) =>
				printRecords(readSubscriptions(sql, chatId, rows), ['chat_id', 'state', 'started_at', 'ended_at'], options),
			);
		});

	subscription
		.command('import')
		.argument('<file>', 'CSV or NDJSON, in UTF-8')
		.description('add subscriptions from a file, all of them or none')
		.addOption(new Option('--format <format>', 'format of the file, if its name does not show it').choices(formats))
		.option('--json', 'print the summary as JSON')
		.addHelpText(
			'after',
			'\nFields: chat_id (required), started_at, ended_at: dates (00:00 UTC) or RFC 3339 times, past or planned. A line\n' +
				'without a start means the active subscription, or else a new one from now on. A stored subscription with the same\n' +
				'chat and start gets the given end, and keeps its own if none is given. If a line is wrong, nothing is imported, and\n' +
				'the wrong lines are reported. A file without lines fails. Importing a file again changes nothing.',
		)
		.examples(
			'contacts subscription import subscribers.csv',
			'contacts subscription import subscribers.txt --format ndjson',
		)
		.action(async (path: string, options: ImportOptions) => {
			const { importSubscriptions, subscriptionColumns } = await import('../import/import-subscriptions.js');
			const { readCsv } = await import('../import/read-csv.js');
			const { readNdjson } = await import('../import/read-json.js');
			const { withSourceFile } = await import('../import/source-file.js');
			const summary = await withSourceFile(path, formats, options.format, ({ format, chunks, onRecord }) => {
				const records = format === 'csv' ? readCsv(chunks, subscriptionColumns) : readNdjson(chunks);
				const onError = (line: number, reason: string) => printNote(`line ${line}: ${reason}`);
				return withTransaction(environment, async (sql) => {
					const done = await importSubscriptions(sql, records, { onRecord, onError });
					await recordOperation(sql, 'subscriptions imported', { file: basename(path), ...done });
					return done;
				});
			});
			const { records, added, changed } = summary;
			printResult(summary, `${records} lines: ${added} subscriptions new, ${changed} got another end.`, options);
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
