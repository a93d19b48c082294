import type { Sql } from '@contacts/common/database/client.js';

/** What a command can request of the synchroniser. A full run does everything that an incremental one does. */
export type RequestedKind = 'incremental' | 'full';

/** A request and a confirmation count for ten minutes: what somebody has given up must not happen next week. */
export const stillCounts = (sql: Sql, column: string) =>
	sql.unsafe(`${column} > clock_timestamp() - interval '10 minutes'`);

/** Requests a run. Of two requests that wait, the larger kind counts. @returns when, to find the run that serves it */
export async function requestRun(sql: Sql, kind: RequestedKind): Promise<string> {
	const [row] = await sql<[{ requested_at: string }]>`
		update crm_sync_requests set
			requested = case when requested = 'full' and ${stillCounts(sql, 'requested_at')} then 'full' else ${kind} end,
			requested_at = clock_timestamp()
		returning requested_at::text as requested_at`;
	return row.requested_at;
}

/** Takes a request back, unless it was taken or another command has made one since. */
export async function withdrawRequest(sql: Sql, requestedAt: string): Promise<boolean> {
	const withdrawn = await sql`
		update crm_sync_requests
		set requested = null, requested_at = null, confirmed_run = null, confirmed_contacts = null, confirmed_at = null
		where requested_at = ${requestedAt}::text::timestamptz returning 1`;
	return withdrawn.length > 0;
}

/** Takes the request of a command, so that one run serves it. */
export async function takeRequest(sql: Sql): Promise<{ kind: RequestedKind; requestedAt: string } | undefined> {
	const [request] = await sql<{ kind: RequestedKind; requestedAt: string }[]>`
		with request as materialized (
			select requested, requested_at from crm_sync_requests where requested is not null for update
		), taken as (
			update crm_sync_requests set requested = null, requested_at = null from request
		)
		select requested as kind, requested_at::text as "requestedAt" from request where ${stillCounts(sql, 'requested_at')}`;
	return request;
}

/** Confirms what a run holds. @returns undefined if that run holds nothing (any more) */
export async function confirmLoss(sql: Sql, run: number): Promise<{ deletions: number; emptied: number } | undefined> {
	const [row] = await sql<{ deletions: number; emptied: number }[]>`
		update crm_sync_requests
		set confirmed_run = held_run, confirmed_contacts = held_deletions + held_emptied, confirmed_at = clock_timestamp()
		from crm_sync_state where held_run = ${run}
		returning held_deletions::float8 as deletions, held_emptied::float8 as emptied`;
	return row;
}

/**
 * Gives the full run under way a confirmation that still counts for what is held. No later run gets it.
 *
 * @returns how many contacts somebody has confirmed to be lost in this run, and whether another configuration
 */
export async function takeConfirmation(sql: Sql): Promise<{ confirmed: number | null; remapped: boolean }> {
	const [row] = await sql<[{ confirmed: number | null; remapped: boolean }]>`
		with confirmation as materialized (
			select confirmed_run, confirmed_contacts from crm_sync_requests where ${stillCounts(sql, 'confirmed_at')} for update
		), taken as (
			update crm_sync_requests set confirmed_run = null, confirmed_contacts = null, confirmed_at = null
			where confirmed_at is not null
		)
		update crm_sync_state set full_confirmed = coalesce(
			(select confirmed_contacts from confirmation where confirmed_run = held_run), full_confirmed)
		returning full_confirmed::float8 as confirmed, remapped`;
	return row;
}
