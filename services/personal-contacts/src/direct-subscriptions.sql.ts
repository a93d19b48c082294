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
 * Applies a report on the chat `$1`: whether it is active is `$2`, its time `$3`. `$4` and `$5` are `Expiry.sentAtLeast` and
 * `Expiry.expires`.
 */
const applying = `
	with report as materialized (
		select $1::float8::bigint as chat_id, $2::boolean as is_active, clock_timestamp() as moment,
			least(to_timestamp($3::float8 / 1000), clock_timestamp()) as at,
			${lockTimeoutUntil('$5')} as lock_timeout
	), applied as (
		insert into direct_subscriptions as stored (chat_id, started_at, ended_at, reported_at)
		select chat_id, case when is_active then least(at, moment) end, case when not is_active then least(at, moment) end, moment
		from report where lock_timeout is not null and ${isOpen('$5')}
		on conflict (chat_id) do update set
			started_at = case
				when excluded.ended_at is null and not ${isActiveSubscription('stored')} then excluded.started_at
				-- The start can only lie in the future when the clock was set back.
				when stored.started_at > excluded.reported_at then excluded.reported_at
				else stored.started_at
			end,
			ended_at = case
				when excluded.ended_at is null then null
				when ${isActiveSubscription('stored')}
					then greatest(excluded.ended_at, least(stored.started_at, excluded.reported_at))
				else least(stored.ended_at, excluded.reported_at)
			end,
			reported_at = excluded.reported_at
		where ${isOpen('$5')} and ${mayReplace('stored.reported_at', '$4')}
		returning chat_id
	)
	select (select 'saved' from applied) as outcome, (extract(epoch from clock_timestamp()) * 1000)::float8 as clock`;

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
		(sql, { sentAtLeast, expires }) =>
			sql.unsafe<{ outcome: 'saved' | null; clock: number }[]>(
				applying,
				[chatId, isActive, at ?? null, sentAtLeast, expires],
				{ prepare: true },
			),
		{ deadline },
	);
}
