import { isActiveSubscription } from '@contacts/common/contacts/direct-subscription.sql.js';
import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import { isOpen, lockTimeoutUntil, mayReplace } from '@contacts/common/database/expiry.sql.js';

/** A report on a chat: whether it has a direct subscription to the bot. */
interface SubscriptionReport {
	chatId: number;
	isActive: boolean;
	/** The start or end in milliseconds since the epoch. Default: now, by the database's clock. */
	at?: number;
}

/**
 * Applies a report, in one atomic statement: the last report decides whether the subscription is active, and `at` says only since
 * when. A start lies before now, an end between the start and now; a start removes a planned end. When it resolves, the report is
 * durably committed.
 *
 * @param deadline that of the caller
 * @throws what `Database.write` throws: a report not applied by then is never applied later
 */
export async function applySubscriptionReport(
	database: Database,
	{ chatId, isActive, at }: SubscriptionReport,
	deadline: Deadline,
): Promise<void> {
	await database.write(
		(sql, { sentAtLeast, expires }) => sql<{ outcome: 'saved' | null; clock: number }[]>`
				with report as materialized (
					select ${chatId}::float8::bigint as chat_id, ${isActive}::boolean as is_active, clock_timestamp() as moment,
						least(to_timestamp(${at ?? null}::float8 / 1000), clock_timestamp()) as at,
						${lockTimeoutUntil(sql, expires)} as lock_timeout
				), applied as (
					insert into direct_subscriptions as stored (chat_id, started_at, ended_at, reported_at)
					select chat_id, case when is_active then least(at, moment) end, case when not is_active then least(at, moment) end, moment
					from report where lock_timeout is not null and ${isOpen(sql, expires)}
					on conflict (chat_id) do update set
						started_at = case
							when excluded.ended_at is null and not ${sql.unsafe(isActiveSubscription('stored'))} then excluded.started_at
							-- The start can only lie in the future when the clock was set back.
							when stored.started_at > excluded.reported_at then excluded.reported_at
							else stored.started_at
						end,
						ended_at = case
							when excluded.ended_at is null then null
							when ${sql.unsafe(isActiveSubscription('stored'))}
								then greatest(excluded.ended_at, least(stored.started_at, excluded.reported_at))
							else least(stored.ended_at, excluded.reported_at)
						end,
						reported_at = excluded.reported_at
					where ${isOpen(sql, expires)} and ${mayReplace(sql, 'stored.reported_at', sentAtLeast)}
					returning chat_id
				)
				select (select 'saved' from applied) as outcome, (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`,
		{ deadline },
	);
}
