import { isActiveSubscription } from '@contacts/common/contacts/direct-subscription.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { isoTime } from '@contacts/common/database/iso-time.sql.js';

const isActive = (sql: Sql, row: string) => sql.unsafe(isActiveSubscription(row));

/**
 * Starts a subscription. A report of the bot that was sent before is not applied afterwards.
 *
 * @param from since when, not in the future, default: now; `until` is its planned end, default: open-ended
 * @returns whether it was started; false: the chat has an active one
 */
export async function startSubscription(
	sql: Sql,
	chatId: number,
	{ from, until }: { from: string | null; until: string | null },
): Promise<boolean> {
	const rows = await sql`
		insert into direct_subscriptions as stored (chat_id, started_at, ended_at, reported_at)
		values (
			${chatId}::float8::bigint, least(${from}::text::timestamptz, statement_timestamp()), ${until}::text::timestamptz,
			statement_timestamp()
		)
		on conflict (chat_id) do update set
			started_at = least(${from}::text::timestamptz, clock_timestamp()), ended_at = excluded.ended_at,
			-- Later than the report that it may have waited for.
			reported_at = clock_timestamp()
		where not ${isActive(sql, 'stored')}
		returning chat_id`;
	return rows.length > 0;
}

/**
 * Ends the active subscription of a chat, or plans its end. A report of the bot that was sent before is not applied afterwards.
 *
 * @param sql in a transaction: it waits for a report that is being applied, and sees what that has changed
 * @param at when it ends, default: now
 * @returns whether one was active
 */
export async function endSubscription(sql: Sql, chatId: number, at: string | null): Promise<boolean> {
	await sql`select from direct_subscriptions where chat_id = ${chatId}::float8::bigint for update`;
	const rows = await sql`
		update direct_subscriptions stored set
			-- The start can only lie in the future when the clock was set back.
			started_at = least(started_at, statement_timestamp()),
			ended_at = greatest(coalesce(${at}::text::timestamptz, statement_timestamp()), least(started_at, statement_timestamp())),
			reported_at = statement_timestamp()
		where chat_id = ${chatId}::float8::bigint and ${isActive(sql, 'stored')}
		returning chat_id`;
	return rows.length > 0;
}

/** A subscription in a file. Times are RFC 3339 in UTC. Without times the chat is subscribed now. */
export interface GivenSubscription {
	line: number;
	chat_id: number;
	started_at: string | null;
	ended_at: string | null;
}

interface SavedSubscriptions {
	applied: number;
	/** They are older than the last report of their chat, or than another line of it. They were not applied. */
	older: number;
}

/** A part of an import locks thousands of rows while it waits for one, so it gives up soon and is sent again. */
export const partLockTimeoutMs = 200;

/**
 * Saves lines of a file. A line is as old as its end when that has passed, or else as its start. The newest line of a chat counts,
 * unless something newer was reported. A line without a start means that the chat is subscribed now, unless it has ended.
 *
 * @param now one moment for all lines of the file, by the database's clock: a report that was applied later stays
 * @throws the error 55P03 of the server after `partLockTimeoutMs`, when a row is locked
 */
export async function saveSubscriptions(
	sql: Sql,
	given: readonly GivenSubscription[],
	now: string,
): Promise<SavedSubscriptions> {
	const [row] = await sql<[SavedSubscriptions]>`
		with import as materialized (
			select ${now}::text::timestamptz as now, set_config('lock_timeout', ${partLockTimeoutMs}::int::text, true)
		),
		given as materialized (
			select line, chat_id, ended_at,
				case when ended_at <= now then started_at else least(started_at, now) end as started_at,
				case when ended_at <= now then ended_at else least(started_at, now) end as reported_at
			from import, json_to_recordset(${JSON.stringify(given)}::text::json)
				as line (line int, chat_id bigint, started_at timestamptz, ended_at timestamptz)
		),
		newest as (
			select distinct on (chat_id) * from given order by chat_id, reported_at desc, started_at desc nulls last, line desc
		),
		saved as (
			insert into direct_subscriptions as stored (chat_id, started_at, ended_at, reported_at)
			select chat_id, started_at, ended_at, reported_at from newest order by chat_id
			on conflict (chat_id) do update set
				started_at = case
					when excluded.started_at is null then case when stored.started_at <= excluded.ended_at then stored.started_at end
					-- A subscription that is active began before.
					when excluded.started_at = (select now from import) and ${isActive(sql, 'stored')}
						then least(stored.started_at, excluded.started_at)
					else excluded.started_at
				end,
				ended_at = excluded.ended_at,
				reported_at = excluded.reported_at
			where (excluded.reported_at, coalesce(excluded.started_at, '-infinity'))
				>= (stored.reported_at, coalesce(stored.started_at, '-infinity'))
			returning chat_id
		)
		select count(*)::int as applied, (select count(*) from given)::int - count(*)::int as older from saved`;
	return row;
}

/** The subscription of a chat, or all active ones without a chat. Newest first, with times as RFC 3339. */
export function readSubscriptions(sql: Sql, chatId?: number): Promise<readonly object[]> {
	return sql`
		select to_json(chat_id) as chat_id,
		       case when ${isActive(sql, 'stored')} then 'active' else 'ended' end as state,
		       ${isoTime(sql, 'started_at', '.MS')} as started_at,
		       ${isoTime(sql, 'ended_at', '.MS')} as ended_at
		from direct_subscriptions stored
		where ${chatId === undefined ? isActive(sql, 'stored') : sql`chat_id = ${chatId}::float8::bigint`}
		order by stored.started_at desc, stored.chat_id desc`;
}
