import type { Sql } from '@contacts/common/database/client.js';
import type { GivenSubscription } from './import/import-subscriptions.js';
import { readPages } from './pages.js';

export interface SubscriptionRow {
	chat_id: number;
	state: 'active' | 'ended' | 'planned';
	started_at: string;
	ended_at: string | null;
}

/** By the time of the statement: what a report has started while the transaction waited for it is active too. */
const isActive = (sql: Sql, of = 'direct_subscriptions') =>
	sql`${sql(of)}.started_at <= statement_timestamp() and (${sql(of)}.ended_at is null or ${sql(of)}.ended_at > statement_timestamp())`;

/** @returns undefined when it is invalid */
export function parseChatId(given: string): number | undefined {
	return /^-?[1-9][0-9]{0,15}$/.test(given) && Number.isSafeInteger(Number(given)) ? Number(given) : undefined;
}

/** No report of the bot that was sent before is applied afterwards. Call it first: reports lock in this order too. */
async function overrideReports(sql: Sql, chatIds: readonly number[]): Promise<void> {
	await sql`
		select override_direct_subscription_reports(
			array(select value::bigint from json_array_elements_text(${JSON.stringify(chatIds)}::text::json))
		)`;
}

/**
 * @param from when it begins, default: now; `until` when it ends, default: it is open-ended
 * @returns whether one was started; false: the chat already has one in that time
 */
export async function startSubscription(
	sql: Sql,
	chatId: number,
	{ from, until }: { from: string | null; until: string | null },
): Promise<boolean> {
	await overrideReports(sql, [chatId]);
	const rows = await sql`
		insert into direct_subscriptions (chat_id, started_at, ended_at)
		select ${chatId}::float8::bigint, given.start, given.until
		from (select coalesce(${from}::text::timestamptz, statement_timestamp()) as start, ${until}::text::timestamptz as until) given
		where not exists (
			select from direct_subscriptions s
			where s.chat_id = ${chatId}::float8::bigint
			  and (given.until is null or s.started_at < given.until) and (s.ended_at is null or s.ended_at > given.start)
		)
		on conflict (chat_id) where ended_at is null do nothing
		returning id`;
	return rows.length > 0;
}

/**
 * @param at when it ends, default: now
 * @returns whether one was active
 */
export async function endSubscription(sql: Sql, chatId: number, at: string | null): Promise<boolean> {
	await overrideReports(sql, [chatId]);
	const rows = await sql`
		update direct_subscriptions set ended_at = greatest(coalesce(${at}::text::timestamptz, statement_timestamp()), started_at)
		where chat_id = ${chatId}::float8::bigint and ${isActive(sql)} returning id`;
	return rows.length > 0;
}

interface SavedSubscriptions {
	added: number;
	changed: number;
	/** Lines that can't be saved, as the chat has an open-ended subscription with another start. */
	conflicts: number[];
}

/**
 * Adds missing subscriptions, and sets the given end of existing ones. One without a start means the active
 * one of its chat. No line may depend on another.
 */
export async function saveSubscriptions(sql: Sql, given: readonly GivenSubscription[]): Promise<SavedSubscriptions> {
	await overrideReports(
		sql,
		given.map(({ chat_id }) => chat_id),
	);
	const [row] = await sql<[SavedSubscriptions]>`
		with given as materialized (
			select line, chat_id, coalesce(started_at, statement_timestamp()) as started_at, started_at is null as is_now, ended_at
			from json_to_recordset(${JSON.stringify(given)}::text::json)
				as line (line int, chat_id bigint, started_at timestamptz, ended_at timestamptz)
		),
		known as materialized (
			select given.line, s.id, given.ended_at
			from given join direct_subscriptions s on s.chat_id = given.chat_id
			  and case when is_now then ${isActive(sql, 's')} else s.started_at = given.started_at end
		),
		changed as (
			update direct_subscriptions s set ended_at = known.ended_at from known
			where s.id = known.id and known.ended_at is not null and s.ended_at is distinct from known.ended_at
			returning s.id
		),
		added as (
			insert into direct_subscriptions (chat_id, started_at, ended_at)
			select chat_id, started_at, ended_at from given
			where line not in (select line from known) order by chat_id
			on conflict (chat_id) where ended_at is null do nothing
			returning chat_id, started_at
		)
		select (select count(*) from added)::int as added,
		       (select count(*) from changed)::int as changed,
		       (
		         select coalesce(json_agg(line order by line), '[]') from given
		         where line not in (select line from known)
		           and (chat_id, started_at) not in (select chat_id, started_at from added)
		       ) as conflicts`;
	return row;
}

/**
 * The subscriptions of a chat, or all active ones without a chat. Newest first, page by page.
 *
 * @param limit the maximum number of rows
 */
export async function* readSubscriptions(
	sql: Sql,
	chatId: number | undefined,
	limit: number,
): AsyncGenerator<readonly SubscriptionRow[]> {
	// The names of the table's columns, not of the result's: so that an index has the order.
	const pages = readPages<SubscriptionRow & { id: number; started: string }>(
		limit,
		(last, size) => sql`
			select chat_id::float8 as chat_id,
			       case when ${isActive(sql)} then 'active' when started_at > statement_timestamp() then 'planned' else 'ended' end as state,
			       to_char(started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as started_at,
			       to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as ended_at,
			       id::float8 as id, direct_subscriptions.started_at::text as started
			from direct_subscriptions
			where ${chatId === undefined ? isActive(sql) : sql`chat_id = ${chatId}::float8::bigint`}
			  ${last === undefined ? sql`` : sql`and (direct_subscriptions.started_at, direct_subscriptions.id) < (${last.started}::text::timestamptz, ${last.id}::float8::bigint)`}
			order by direct_subscriptions.started_at desc, direct_subscriptions.id desc limit ${size}`,
	);
	for await (const page of pages) yield page.map(({ id, started, ...row }) => row);
}
