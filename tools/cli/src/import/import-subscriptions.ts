import { basename } from 'node:path';
import type { Sql } from '@contacts/common/database/client.js';
import { readTimestamp } from '@contacts/common/schemas/fields.js';
import { withTransaction } from '../connection.js';
import { CommandError } from '../errors.js';
import { parseChatId } from '../numbers.js';
import { counted, type OutputOptions, printNote, printResult } from '../output.js';
import { recordOperation } from '../projects.sql.js';
import { type SavedSubscriptions, saveSubscriptions } from '../subscriptions.sql.js';
import { noRecords, type SourceRecord } from './read-records.js';
import { type Format, withRecords } from './source-file.js';

/** A subscription in a file. Times are RFC 3339 in UTC. Without times the chat is subscribed now. */
export interface GivenSubscription {
	line: number;
	chat_id: number;
	started_at: string | null;
	ended_at: string | null;
}

/** The columns of a file, or the fields of its records. `state` is what a list of subscriptions has beside the times: it is ignored. */
const columns = { names: ['chat_id', 'state', 'started_at', 'ended_at'], required: 'chat_id' };

interface SubscriptionImport extends SavedSubscriptions {
	records: number;
}

/** The number of lines that one statement saves. */
const maxBatch = 5000;

/** The number of wrong lines to name. Further ones are only counted. */
const maxNamedLines = 100;

/** `contacts subscription import` */
export async function runSubscriptionImport(
	environment: NodeJS.ProcessEnv,
	path: string,
	{ format, ...options }: OutputOptions & { format?: Format },
): Promise<void> {
	const summary = await withRecords(path, format, columns, (records) =>
		withTransaction(environment, async (sql) => {
			const done = await importSubscriptions(sql, records);
			await recordOperation(sql, 'subscriptions imported', { file: basename(path), ...done });
			return done;
		}),
	);
	const { records, added, changed, unchanged, older } = summary;
	printResult(
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
async function importSubscriptions(sql: Sql, records: AsyncIterable<SourceRecord>): Promise<SubscriptionImport> {
	const summary: SubscriptionImport = { records: 0, added: 0, changed: 0, unchanged: 0, older: 0 };
	let batch: GivenSubscription[] = [];
	let wrong = 0;

	function reject(line: number, reason: string): void {
		wrong++;
		if (wrong <= maxNamedLines) printNote(`line ${line}: ${reason}`);
	}

	async function flush(): Promise<void> {
		// After a wrong line the import only checks the rest.
		if (wrong === 0 && batch.length > 0) {
			const saved = await saveSubscriptions(sql, batch);
			for (const count of ['added', 'changed', 'unchanged', 'older'] as const) summary[count] += saved[count];
		}
		batch = [];
	}

	for await (const record of records) {
		summary.records++;
		const given = 'error' in record ? record.error : toSubscription(record.line, record.fields);
		if (typeof given === 'string') {
			reject(record.line, given);
		} else {
			if (batch.length >= maxBatch) await flush();
			batch.push(given);
		}
	}
	if (summary.records === 0) throw noRecords();
	await flush();
	if (wrong > 0) throw new CommandError(`${wrong} of ${summary.records} lines are wrong: nothing was imported.`);
	return summary;
}

/** @returns the reason when a line is wrong */
function toSubscription(line: number, fields: Record<string, unknown>): GivenSubscription | string {
	const unknown = Object.keys(fields).find((name) => !columns.names.includes(name));
	if (unknown !== undefined) return `only ${columns.names.join(', ')} are known`;
	const given = fields.chat_id;
	const chatId = typeof given === 'string' || typeof given === 'number' ? parseChatId(String(given)) : undefined;
	if (chatId === undefined) return 'chat_id is no integer other than 0, within ±9007199254740991';
	const started = parseTime(fields.started_at);
	const ended = parseTime(fields.ended_at);
	for (const [name, time] of [
		['started_at', started],
		['ended_at', ended],
	] as const) {
		if (time === undefined) return `${name} is neither a date nor a time like 2026-05-17T12:00:00Z`;
	}
	if (started && started > new Date().toISOString()) return 'started_at is in the future';
	if (started && ended && ended < started) return 'ended_at is before started_at';
	return { line, chat_id: chatId, started_at: started ?? null, ended_at: ended ?? null };
}

/**
 * An RFC 3339 time, or a date, which means 00:00 UTC.
 *
 * @returns the time in UTC; null: none given; undefined: invalid
 */
export function parseTime(given: unknown): string | null | undefined {
	if (given === undefined || given === null || given === '') return null;
	if (typeof given !== 'string') return undefined;
	const time = readTimestamp(/^\d{4}-\d\d-\d\d$/.test(given) ? `${given}T00:00:00Z` : given);
	return time === undefined ? undefined : new Date(time).toISOString();
}
