import type { Sql } from '@contacts/common/database/client.js';

export interface SubscriptionRow {
	chat_id: number;
	state: 'active' | 'ended' | 'planned';
	started_at: string;
	ended_at: string | null;
}

const isActive = (sql: Sql) => sql`started_at <= now() and (ended_at is null or ended_at > now())`;

/** @returns whether one was started; false: one is active already */
export async function startSubscription(sql: Sql, chatId: string): Promise<boolean> {
	const rows = await sql`
		insert into direct_subscriptions (chat_id)
		select ${chatId}::bigint
		where not exists (select from direct_subscriptions where chat_id = ${chatId}::bigint and ${isActive(sql)})
		on conflict (chat_id) where ended_at is null do nothing
		returning id`;
	return rows.length > 0;
}

/** @returns whether one was active */
export async function endSubscription(sql: Sql, chatId: string): Promise<boolean> {
	const rows = await sql`
		update direct_subscriptions set ended_at = greatest(now(), started_at)
		where chat_id = ${chatId}::bigint and ${isActive(sql)} returning id`;
	return rows.length > 0;
}

/** The subscriptions of a chat; without one, all that are active, the newest first and at most 1,000. */
export function readSubscriptions(sql: Sql, chatId?: string): Promise<readonly SubscriptionRow[]> {
	return sql<SubscriptionRow[]>`
		select chat_id::float8 as chat_id,
		       case when ${isActive(sql)} then 'active' when started_at > now() then 'planned' else 'ended' end as state,
		       to_char(started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as started_at,
		       to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as ended_at
		from direct_subscriptions
		where ${chatId === undefined ? isActive(sql) : sql`chat_id = ${chatId}::bigint`}
		order by direct_subscriptions.started_at desc, id desc limit 1000`;
}
