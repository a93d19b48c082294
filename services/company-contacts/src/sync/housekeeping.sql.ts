import type { Sql } from '@contacts/common/database/client.js';

/** A status shows the newest few runs, and who looks for the cause of something looks back some days. */
const keptRuns = { days: 30, most: 10_000 };

/**
 * Deletes old runs, requests that nobody waits for any more, and the tombstones of contacts that no cursor needs any more.
 * Cheap enough to be done at each pass.
 */
export async function prune(sql: Sql): Promise<void> {
	await sql`select prune_company_contacts_tombstones()`;
	await sql`
		with old_requests as (
			delete from crm_sync_requests where wanted_until < clock_timestamp() - interval '1 day'
		)
		delete from crm_sync_runs
		where id <= (select id from crm_sync_runs order by id desc offset ${keptRuns.most} limit 1)
		   or begun_at < clock_timestamp() - make_interval(days => ${keptRuns.days})`;
}

/** Closes the runs of a synchroniser that crashed: whoever holds the lock knows that nobody else is in the midst of one. */
export async function closeInterruptedRuns(sql: Sql): Promise<void> {
	await sql`update crm_sync_runs set ended_at = clock_timestamp(), outcome = 'interrupted' where ended_at is null`;
}
