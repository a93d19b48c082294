import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import { isActiveSubscription } from '@contacts/common/database/direct-subscription.sql.js';
import { maxLockWaitMs } from '@contacts/common/database/expiring-write.js';

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
 * @throws what `Database.write` throws with a deadline: a report not applied by then is never applied later
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
						-- A row that is new is not compared with the expiry again after it has waited for another transaction.
						set_config('lock_timeout',
							least(${maxLockWaitMs}, greatest(1, ceil(${expires}::float8 - extract(epoch from clock_timestamp()) * 1000)))::int::text, true) as lock_timeout
				), applied as (
					insert into direct_subscriptions as stored (chat_id, started_at, ended_at, reported_at)
					select chat_id, case when is_active then least(at, moment) end, case when not is_active then least(at, moment) end, moment
					from report where lock_timeout is not null and clock_timestamp() < to_timestamp(${expires}::float8 / 1000)
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
					where clock_timestamp() < to_timestamp(${expires}::float8 / 1000)
					  and (stored.reported_at <= to_timestamp(${sentAtLeast}::float8 / 1000) or stored.reported_at > clock_timestamp())
					returning chat_id
				)
				select (select 'saved' from applied) as outcome, (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`,
		{ deadline },
	);
}
