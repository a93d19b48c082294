import type { Command } from 'commander';
import { withDatabase } from '../connection.js';
import { CommandError, UsageError } from '../errors.js';
import { examples } from '../examples.js';
import { type OutputOptions, printRecords, printResult } from '../output.js';
import { endSubscription, readSubscriptions, startSubscription } from '../subscriptions.sql.js';

export function addSubscriptionCommands(program: Command, environment: NodeJS.ProcessEnv): void {
	const subscription = program
		.command('subscription')
		.description('direct subscriptions to the bot: while one is active, the chat’s user is not saved');

	subscription
		.command('start')
		.argument('<chat_id>')
		.description('start a subscription now, open-ended')
		.option('--json', 'print the result as JSON')
		.addHelpText('after', examples('contacts subscription start 5550001'))
		.action(async (chatId: string, options: OutputOptions) => {
			checkChatId(chatId);
			const started = await withDatabase(environment, (sql) => startSubscription(sql, chatId));
			if (!started) throw new CommandError(`Chat ${chatId} has an active subscription already.`);
			printResult({ chat_id: Number(chatId), state: 'active' }, `Chat ${chatId} is subscribed.`, options);
		});

	subscription
		.command('end')
		.argument('<chat_id>')
		.description('end the active subscription now')
		.option('--json', 'print the result as JSON')
		.addHelpText('after', examples('contacts subscription end 5550001'))
		.action(async (chatId: string, options: OutputOptions) => {
			checkChatId(chatId);
			const ended = await withDatabase(environment, (sql) => endSubscription(sql, chatId));
			if (!ended) throw new CommandError(`Chat ${chatId} has no active subscription.`);
			printResult(
				{ chat_id: Number(chatId), state: 'ended' },
				`The subscription of chat ${chatId} has ended.`,
				options,
			);
		});

	subscription
		.command('list')
		.argument('[chat_id]', 'all subscriptions of this chat; without it, the newest 1,000 active ones')
		.description('list subscriptions')
		.option('--json', 'print the records as JSON')
		.addHelpText('after', examples('contacts subscription list', 'contacts subscription list -- -100200300'))
		.action(async (chatId: string | undefined, options: OutputOptions) => {
			if (chatId !== undefined) checkChatId(chatId);
			const records = await withDatabase(environment, (sql) => readSubscriptions(sql, chatId));
			printRecords(records, ['chat_id', 'state', 'started_at', 'ended_at'], options);
		});
}

function checkChatId(given: string): void {
	if (!/^-?[1-9][0-9]{0,15}$/.test(given) || !Number.isSafeInteger(Number(given))) {
		throw new UsageError('A chat_id is an integer other than 0, within ±9007199254740991.');
	}
}
