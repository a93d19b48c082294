import type { Turn } from '@contacts/common/database/admission.js';
import type { Database } from '@contacts/common/database/database.js';

/** A report on a chat: whether it has a direct subscription to the bot. */
interface SubscriptionReport {
	chatId: number;
	isActive: boolean;
	/** The start or end in milliseconds since the epoch. Default: now, by the database's clock. */
	at?: number;
}

/**
 * Applies a report. When it resolves, the report is durably committed. A report that expires before it is applied is sent again, and
 * so is one that may be older than the report that was applied last.
 *
 * @param turn the caller's turn
 * @throws what `Database.write` throws with a turn: a report not applied by then is never applied later
 */
export async function applySubscriptionReport(
	database: Database,
	{ chatId, isActive, at }: SubscriptionReport,
	turn: Turn,
): Promise<void> {
	for (let isApplied = false; !isApplied; ) {
		const [row] = await database.write(
			(sql, { sentAtLeast, expires }) => sql<{ is_applied: boolean; clock: number }[]>`
				with terms as materialized (
					select set_config('lock_timeout', ${String(Math.ceil(expires - sentAtLeast))}, true) as lock_timeout
				)
				select apply_direct_subscription_report(
						${chatId}::float8::bigint, ${isActive}::boolean, to_timestamp(${at ?? null}::float8 / 1000),
						to_timestamp(${sentAtLeast}::float8 / 1000), to_timestamp(${expires}::float8 / 1000)
					) as is_applied,
					(extract(epoch from clock_timestamp()) * 1000)::float8 as clock
				from terms where lock_timeout is not null`,
			{ turn },
		);
		isApplied = row?.is_applied ?? false;
	}
}
