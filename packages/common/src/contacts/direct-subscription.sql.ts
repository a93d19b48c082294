/**
 * Whether a row of `direct_subscriptions` is active, as SQL. The start does not matter: it is never in the future, and a clock that
 * was set back must not end a subscription. For the same reason an end that was reported counts at once.
 *
 * @param row the name of the row in the statement
 */
export const isActiveSubscription = (row: string) =>
	`(${row}.ended_at is null or ${row}.ended_at > greatest(clock_timestamp(), ${row}.reported_at))`;
