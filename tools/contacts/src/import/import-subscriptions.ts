import type { Sql } from '@contacts/common/database/client.js';
import { readTimestamp } from '@contacts/common/schemas/fields.js';
import { CommandError } from '../errors.js';
import { parseChatId, saveSubscriptions } from '../subscriptions.sql.js';
import { noRecords, type SourceRecord } from './record.js';

/** A subscription in a file. Times are RFC 3339 in UTC. Without a start it means the active subscription. */
export interface GivenSubscription {
	line: number;
	chat_id: number;
	started_at: string | null;
	ended_at: string | null;
}

/** The columns of a file, or the fields of its records. */
export const subscriptionColumns = { names: ['chat_id', 'started_at', 'ended_at'], required: 'chat_id' };

export interface SubscriptionImport {
	records: number;
	added: number;
	/** Got another end. */
	changed: number;
}

/** The number of lines that one statement saves. */
const maxBatch = 5000;

/** The number of wrong lines to name. Further ones are only counted. */
const maxNamedLines = 100;

/**
 * Saves all subscriptions of a file, or none.
 *
 * @param onError called for each wrong line
 * @throws CommandError when any line is wrong, or there is none; the caller must not commit then
 */
export async function importSubscriptions(
	sql: Sql,
	records: AsyncIterable<SourceRecord>,
	{ onError, onRecord }: { onError(line: number, reason: string): void; onRecord(records: number): void },
): Promise<SubscriptionImport> {
	const summary: SubscriptionImport = { records: 0, added: 0, changed: 0 };
	let batch: GivenSubscription[] = [];
	/** The starts of the lines in the batch, by chat. */
	let starts = new Map<number, (string | null)[]>();
	let wrong = 0;

	function reject(line: number, reason: string): void {
		wrong++;
		if (wrong <= maxNamedLines) onError(line, reason);
	}

	async function flush(): Promise<void> {
		// After a wrong line the import only checks the rest.
		if (wrong === 0 && batch.length > 0) {
			const { added, changed, conflicts } = await saveSubscriptions(sql, batch);
			summary.added += added;
			summary.changed += changed;
			for (const line of conflicts) reject(line, 'the chat has another subscription without an end');
		}
		batch = [];
		starts = new Map();
	}

	for await (const record of records) {
		summary.records++;
		const given = 'error' in record ? record.error : toSubscription(record.line, record.fields);
		if (typeof given === 'string') {
			reject(record.line, given);
		} else {
			const before = starts.get(given.chat_id) ?? [];
			// Lines of one batch don't see each other, so a line that depends on an earlier one goes into a later batch.
			const depends = before.some((start) => start === null || given.started_at === null || start === given.started_at);
			if (depends || batch.length >= maxBatch) await flush();
			starts.set(given.chat_id, [...(starts.get(given.chat_id) ?? []), given.started_at]);
			batch.push(given);
		}
		onRecord(summary.records);
	}
	if (summary.records === 0) throw noRecords();
	await flush();
	if (wrong > 0) throw new CommandError(`${wrong} of ${summary.records} lines are wrong: nothing was imported.`);
	return summary;
}

/** @returns the reason when a line is wrong */
function toSubscription(line: number, fields: Record<string, unknown>): GivenSubscription | string {
	const unknown = Object.keys(fields).find((name) => !subscriptionColumns.names.includes(name));
	if (unknown !== undefined) return `only ${subscriptionColumns.names.join(', ')} are known`;
	const chatId = parseChatId(String(fields.chat_id ?? ''));
	if (chatId === undefined) return 'chat_id is no integer other than 0, within ±9007199254740991';
	const started = parseTime(fields.started_at);
	const ended = parseTime(fields.ended_at);
	for (const [name, time] of [
		['started_at', started],
		['ended_at', ended],
	] as const) {
		if (time === undefined) return `${name} is neither a date nor a time like 2026-05-17T12:00:00Z`;
	}
	if (ended && ended < (started ?? new Date().toISOString()))
		return started ? 'ended_at is before started_at' : 'ended_at is in the past, and there is no started_at';
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
