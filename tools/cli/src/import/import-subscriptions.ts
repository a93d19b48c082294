import { basename } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import { parseChatId, parseTime } from '../arguments.js';
import { withTransaction } from '../connection.js';
import { CommandError } from '../errors.js';
import { type Context, counted, type Output, type OutputOptions } from '../output.js';
import { recordOperation } from '../projects.sql.js';
import { type SavedSubscriptions, saveSubscriptions } from '../subscriptions.sql.js';
import { type Format, noRecords, readRecords, type SourceRecord } from './read-records.js';

export interface SubscriptionImportOptions extends OutputOptions {
	format?: Format;
}

/** A subscription in a file. Times are RFC 3339 in UTC. Without times the chat is subscribed now. */
export interface GivenSubscription {
	line: number;
	chat_id: number;
	started_at: string | null;
	ended_at: string | null;
}

/** The columns of a file, or the fields of its records. `state` is what a list of subscriptions has beside the times: it is ignored. */
const columns = { names: ['chat_id', 'state', 'started_at', 'ended_at'], required: 'chat_id' };

/** The number of lines that one statement saves. */
const maxBatch = 5000;

/** `contacts subscription import` */
export async function subscriptionImport(
	{ environment, stdin, output }: Context,
	path: string,
	{ format, ...options }: SubscriptionImportOptions,
): Promise<void> {
	const lines = readRecords(path, format, columns, stdin);
	const summary = await withTransaction(environment, async (sql) => {
		const done = await importSubscriptions(sql, lines, output);
		await recordOperation(sql, 'subscriptions imported', { file: basename(path), ...done });
		return done;
	});
	const { records, added, changed, unchanged, older } = summary;
	output.result(
		summary,
		`${counted(records, 'line')}: ${counted(added, 'subscription')} new, ${changed} changed, ${unchanged} as stored, ${older} older than what is stored or than another line.`,
		options,
	);
}

/**
 * Saves all subscriptions of a file, or none.
 *
 * @throws CommandError when any line is wrong, or there is none; the caller must not commit then
 */
async function importSubscriptions(
	sql: Sql,
	lines: AsyncIterable<SourceRecord>,
	output: Output,
): Promise<SavedSubscriptions & { records: number }> {
	const summary = { records: 0, added: 0, changed: 0, unchanged: 0, older: 0 };
	let batch: GivenSubscription[] = [];
	let wrong = 0;

	async function flush(): Promise<void> {
		const saved = await saveSubscriptions(sql, batch);
		for (const count of ['added', 'changed', 'unchanged', 'older'] as const) summary[count] += saved[count];
		batch = [];
	}

	for await (const record of lines) {
		summary.records++;
		output.progress(counted(summary.records, 'line'));
		const given = 'error' in record ? record.error : toSubscription(record.line, record.fields);
		if (typeof given === 'string') {
			wrong++;
			output.note(`line ${record.line}: ${given}`);
			await output.taken();
			continue;
		}
		batch.push(given);
		if (batch.length === maxBatch) await flush();
	}
	if (summary.records === 0) throw noRecords();
	if (wrong > 0) throw new CommandError(`${wrong} of ${summary.records} lines are wrong: nothing was imported.`);
	await flush();
	return summary;
}

/** @returns the reason when a line is wrong */
function toSubscription(line: number, fields: Record<string, unknown>): GivenSubscription | string {
	if (Object.keys(fields).some((name) => !columns.names.includes(name)))
		return `only ${columns.names.join(', ')} are known`;
	const given = fields.chat_id;
	const chatId = typeof given === 'string' || typeof given === 'number' ? parseChatId(String(given)) : undefined;
	if (chatId === undefined) return 'chat_id is no integer other than 0, within ±9007199254740991';
	const [started, ended] = [parseTime(fields.started_at), parseTime(fields.ended_at)];
	if (started === undefined || ended === undefined)
		return `${started === undefined ? 'started_at' : 'ended_at'} is neither a date nor a time like 2026-05-17T12:00:00Z`;
	if (started !== null && started > new Date().toISOString()) return 'started_at is in the future';
	if (started !== null && ended !== null && ended < started) return 'ended_at is before started_at';
	return { line, chat_id: chatId, started_at: started, ended_at: ended };
}
