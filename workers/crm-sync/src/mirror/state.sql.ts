import type { Sql } from '@contacts/common/database/client.js';
import type { MirrorConfiguration } from './configuration.js';
import { type RequestedKind, stillCounts } from './requests.sql.js';

export interface SyncState {
	/** All times are in milliseconds since the epoch; `watermark` and `full_watermark` by the CRM's clock. */
	watermark: number | null;
	/** When the last successful run began: the mirror is equal to the CRM as it was then. */
	last_success_at: number | null;
	last_full_at: number | null;
	full_watermark: number | null;
	full_begun_at: number | null;
	full_cursor: number | null;
	/** How many contacts somebody has confirmed to be lost in the full run under way. */
	full_confirmed: number | null;
	/** The run that holds what it would take away: how many contacts are missing, and how many would lose their phone or companies. */
	held_run: number | null;
	held_deletions: number | null;
	held_emptied: number | null;
	/** Whether somebody has confirmed this configuration, and no full run with it has read every contact. */
	remapped: boolean;
	denied_contacts: number;
	unread_contacts: number;
	/** The categories of contacts that the last run has read. */
	categories: readonly number[];
	/** The code with which the CRM refused to tell its categories. */
	categories_refused_by: string | null;
	blocked_by: string | null;
	blocked_until: number | null;
	/** The configuration of the mirror; null while unknown. */
	configuration: MirrorConfiguration | null;
	/** The request of a command, if it still counts. */
	requested: RequestedKind | null;
}

const epoch = (sql: Sql, column: string) => sql.unsafe(`(extract(epoch from ${column}) * 1000)::float8 as ${column}`);
const time = (milliseconds: number) => new Date(milliseconds).toISOString();

export async function readState(sql: Sql): Promise<SyncState> {
	const [state] = await sql<[SyncState]>`
		select ${epoch(sql, 'watermark')}, ${epoch(sql, 'last_success_at')}, ${epoch(sql, 'last_full_at')},
		       ${epoch(sql, 'full_watermark')}, ${epoch(sql, 'full_begun_at')}, full_cursor::float8 as full_cursor,
		       full_confirmed::float8 as full_confirmed,
		       held_run::float8 as held_run, held_deletions::float8 as held_deletions,
		       held_emptied::float8 as held_emptied, remapped,
		       denied_contacts::float8 as denied_contacts, unread_contacts::float8 as unread_contacts,
		       to_json(categories) as categories, categories_refused_by,
		       blocked_by, ${epoch(sql, 'blocked_until')}, configuration,
		       case when ${stillCounts(sql, 'requested_at')} then requested end as requested
		from crm_sync_state, crm_sync_requests`;
	return state;
}

/** Starts a full run from the beginning, after an unfinished one was discarded. */
export async function beginFull(sql: Sql, watermark: number): Promise<void> {
	await sql`
		update crm_sync_state
		set full_watermark = ${time(watermark)}::text::timestamptz, full_begun_at = now(), full_cursor = 0`;
}

/** What the state is when no full run is under way. */
export const noFullRun = 'full_watermark = null, full_begun_at = null, full_cursor = null, full_confirmed = null';

/**
 * Discards an unfinished full run.
 *
 * @param isIncomplete whether it has listed too few contacts: the mirror is not known to be equal to the CRM
 */
export async function discardFull(sql: Sql, { isIncomplete = false } = {}): Promise<void> {
	await sql`
		with discarded as (delete from crm_sync_staging)
		update crm_sync_state
		set ${sql.unsafe(noFullRun)}, last_full_at = case when ${isIncomplete} then null else last_full_at end`;
}

/**
 * Ends an incremental run. The mirror has what had changed until that run began. It counts as equal to the CRM only if the last
 * full run has found it so.
 */
export async function finishIncremental(sql: Sql, runId: number, watermark: number): Promise<void> {
	await sql`
		update crm_sync_state
		set watermark = ${time(watermark)}::text::timestamptz, blocked_by = null, blocked_until = null,
		    last_success_at = case when held_run is not null or last_full_at is null then last_success_at
		        else (select begun_at from crm_sync_runs where id = ${runId}) end`;
}

/** Stores why the synchroniser does not work, and until when if that is known. Undefined: it works. */
export async function saveBlock(
	sql: Sql,
	block: { code: string; until?: number | undefined } | undefined,
): Promise<void> {
	const until = block?.until === undefined ? null : time(block.until);
	await sql`
		update crm_sync_state set blocked_by = ${block?.code ?? null}, blocked_until = ${until}::text::timestamptz`;
}

/**
 * Stores the new configuration of the mirror. A full run then reads everything again with it.
 *
 * @param isConfirmed whether somebody has confirmed it: it names other contacts, or gives them other values. What is held is of the
 *   earlier one
 */
export async function saveConfiguration(
	sql: Sql,
	configuration: MirrorConfiguration,
	isConfirmed: boolean,
): Promise<void> {
	const confirmed = isConfirmed
		? sql`, remapped = true, held_run = null, held_deletions = null, held_emptied = null`
		: sql``;
	await sql`
		update crm_sync_state
		set configuration = ${JSON.stringify(configuration)}::text::jsonb, watermark = null ${confirmed}`;
}

/**
 * Stores the categories of contacts that a run reads, and why the CRM has not told them. With a category that is new, the mirror is not
 * known to be equal to the CRM until a full run is complete.
 */
export async function saveCategories(sql: Sql, ids: readonly number[], refusedBy: string | null): Promise<void> {
	await sql`
		update crm_sync_state
		set categories = ${`{${ids}}`}::text::bigint[], categories_refused_by = ${refusedBy},
		    last_full_at = case when categories @> ${`{${ids}}`}::text::bigint[] then last_full_at end
		where (categories, categories_refused_by) is distinct from (${`{${ids}}`}::text::bigint[], ${refusedBy}::text)`;
}
