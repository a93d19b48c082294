import { basename } from 'node:path';
import { parseChatId, parseTime } from '../arguments.js';
import { withTransaction } from '../connection.js';
import { CommandError } from '../errors.js';
import { type Context, counted } from '../output.js';
import { recordOperation } from '../projects.sql.js';
import { saveSubscriptions } from '../subscriptions.sql.js';
import { type ReadOptions, readRecords } from './read-records.js';
import { RecordError, saveRecords } from './save-records.js';

/** A subscription in a file. Times are RFC 3339 in UTC. Without times the chat is subscribed now. */
export interface GivenSubscription {
	line: number;
	chat_id: number;
	started_at: string | null;
	ended_at: string | null;
}

/** The columns of a file, or the fields of its records. `state` is what a list of subscriptions has beside the times: it is ignored. */
const columns = { names: ['chat_id', 'state', 'started_at', 'ended_at'], required: 'chat_id' };

/** The number of records that one statement saves. */
const maxBatch = 5000;

/** `contacts subscription import`: saves all subscriptions of a file, or none. */
export async function subscriptionImport(
	{ environment, stdin, output }: Context,
	path: string,
	{ format, ...options }: ReadOptions,
): Promise<void> {
	const source = readRecords(path, format, columns, stdin);
	const summary = await withTransaction(environment, async (sql) => {
		const counts = { added: 0, changed: 0, unchanged: 0, older: 0 };
		const { records, refused, failure } = await saveRecords(source, output, maxBatch, toSubscription, async (batch) => {
			const saved = await saveSubscriptions(sql, batch);
			for (const name of ['added', 'changed', 'unchanged', 'older'] as const) counts[name] += saved[name];
		});
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
}

function toSubscription(fields: Record<string, unknown>, line: number): GivenSubscription {
	if (Object.keys(fields).some((name) => !columns.names.includes(name)))
		throw new RecordError(`only ${columns.names.join(', ')} are known`);
	const given = fields.chat_id;
	const chatId = typeof given === 'string' || typeof given === 'number' ? parseChatId(String(given)) : undefined;
	if (chatId === undefined) throw new RecordError('chat_id is no integer other than 0, within ±9007199254740991');
	const [started, ended] = [fieldTime(fields, 'started_at'), fieldTime(fields, 'ended_at')];
	if (started !== null && started > new Date().toISOString()) throw new RecordError('started_at is in the future');
	if (started !== null && ended !== null && ended < started) throw new RecordError('ended_at is before started_at');
	return { line, chat_id: chatId, started_at: started, ended_at: ended };
}

function fieldTime(fields: Record<string, unknown>, name: string): string | null {
	const time = parseTime(fields[name]);
	if (time === undefined) throw new RecordError(`${name} is neither a date nor a time like 2026-05-17T12:00:00Z`);
	return time;
}
