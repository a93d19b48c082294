import { pruneTombstones, type SaveResult } from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { isoTime } from '@contacts/common/database/iso-time.sql.js';
import type { MirrorConfiguration } from './mirror-configuration.js';
import { pruneUnreadablePhones } from './unreadable-phones.sql.js';

/** What a command can request of the synchroniser. A full run does everything that an incremental one does. */
type RequestedKind = 'incremental' | 'full';

export interface SyncState {
	/** All times are in milliseconds since the epoch; `watermark` and `full_watermark` by the CRM's clock. */
	watermark: number | null;
	/** When the last successful run began: the mirror is equal to the CRM as it was then. */
	last_success_at: number | null;
	last_full_at: number | null;
	full_watermark: number | null;
	full_begun_at: number | null;
	full_cursor: number | null;
	/** How many deletions somebody has confirmed for the full run under way. */
	full_confirmed: number | null;
	/** The run that has put deletions on hold, and their number. */
	held_run: number | null;
	held_deletions: number | null;
	denied_contacts: number;
	unread_contacts: number;
	contradictory_contacts: number;
	/** The categories of contacts that the last run has read. */
	categories: readonly number[];
	/** The code with which the CRM refused to tell its categories. */
	categories_refused_by: string | null;
	bucket_arrival: number;
	blocked_by: string | null;
	blocked_until: number | null;
	/** The configuration of the mirror; null while unknown. */
	configuration: MirrorConfiguration | null;
	/** The request of a command, if it still counts. */
	requested: RequestedKind | null;
}

const epoch = (sql: Sql, column: string) => sql.unsafe(`(extract(epoch from ${column}) * 1000)::float8 as ${column}`);
const time = (milliseconds: number) => new Date(milliseconds).toISOString();

/** A request and a confirmation count for ten minutes: what somebody has given up must not happen next week. */
const stillCounts = (sql: Sql, column: string) => sql.unsafe(`${column} > clock_timestamp() - interval '10 minutes'`);

export async function readState(sql: Sql): Promise<SyncState> {
	const [state] = await sql<[SyncState]>`
		select ${epoch(sql, 'watermark')}, ${epoch(sql, 'last_success_at')}, ${epoch(sql, 'last_full_at')},
		       ${epoch(sql, 'full_watermark')}, ${epoch(sql, 'full_begun_at')}, full_cursor::float8 as full_cursor,
		       full_confirmed::float8 as full_confirmed,
		       held_run::float8 as held_run, held_deletions::float8 as held_deletions,
		       denied_contacts::float8 as denied_contacts, unread_contacts::float8 as unread_contacts,
		       contradictory_contacts::float8 as contradictory_contacts,
		       to_json(categories) as categories, categories_refused_by,
		       bucket_arrival, blocked_by, ${epoch(sql, 'blocked_until')}, configuration,
		       case when ${stillCounts(sql, 'requested_at')} then requested end as requested
		from crm_sync_state, crm_sync_requests`;
	return state;
}

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
		set requested = null, requested_at = null, confirmed_run = null, confirmed_deletions = null, confirmed_at = null
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

/** Confirms the deletions that a run has put on hold. @returns undefined if that run's deletions are not on hold (any more) */
export async function confirmDeletions(sql: Sql, run: number): Promise<{ deletions: number } | undefined> {
	const [row] = await sql<{ deletions: number }[]>`
		update crm_sync_requests
		set confirmed_run = held_run, confirmed_deletions = held_deletions, confirmed_at = clock_timestamp()
		from crm_sync_state where held_run = ${run} returning held_deletions::float8 as deletions`;
	return row;
}

/** Gives the full run under way a confirmation that still counts for the deletions on hold. No later run gets it. */
export async function takeConfirmation(sql: Sql): Promise<void> {
	await sql`
		with confirmation as materialized (
			select confirmed_run, confirmed_deletions, confirmed_at from crm_sync_requests where confirmed_at is not null for update
		), taken as (
			update crm_sync_requests set confirmed_run = null, confirmed_deletions = null, confirmed_at = null from confirmation
		)
		update crm_sync_state set full_confirmed = confirmed_deletions
		from confirmation where confirmed_run = held_run and ${stillCounts(sql, 'confirmed_at')}`;
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
 * @param isIncomplete whether the CRM has listed too few contacts, so that the mirror is not known to be equal to it
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

export async function saveBucket(sql: Sql, arrival: number): Promise<void> {
	await sql`update crm_sync_state set bucket_arrival = ${arrival}`;
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

/** Stores the new configuration of the mirror. A full run then reads everything again with it. */
export async function saveConfiguration(sql: Sql, configuration: MirrorConfiguration): Promise<void> {
	await sql`
		update crm_sync_state set configuration = ${JSON.stringify(configuration)}::text::jsonb, watermark = null`;
}

/** Stores the categories of contacts that a run reads, and why the CRM has not told them. */
export async function saveCategories(sql: Sql, ids: readonly number[], refusedBy: string | null): Promise<void> {
	await sql`
		update crm_sync_state
		set categories = ${`{${ids}}`}::text::bigint[], categories_refused_by = ${refusedBy}
		where (categories, categories_refused_by) is distinct from (${`{${ids}}`}::text::bigint[], ${refusedBy}::text)`;
}

export const runKinds = ['full', 'incremental', 'events'] as const;
export type RunKind = (typeof runKinds)[number];

/** What a run has done. */
interface RunCounts extends SaveResult {
	seen: number;
	deleted: number;
	/** Contacts that the CRM did not return, or not completely. */
	unread: number;
	requests: number;
}

export interface RunRow extends RunCounts {
	id: number;
	kind: RunKind;
	/** RFC 3339. */
	begun_at: string;
	ended_at: string | null;
	outcome: string | null;
	total: number | null;
}

export async function beginRun(sql: Sql, kind: RunKind, requestedAt: string | null): Promise<number> {
	const [row] = await sql<[{ id: number }]>`
		insert into crm_sync_runs (kind, requested_at) values (${kind}, ${requestedAt}::text::timestamptz)
		returning id::float8 as id`;
	return row.id;
}

export async function changeKind(sql: Sql, id: number, kind: RunKind): Promise<void> {
	await sql`update crm_sync_runs set kind = ${kind} where id = ${id}`;
}

export async function saveProgress(sql: Sql, id: number, seen: number, total: number | undefined): Promise<void> {
	await sql`update crm_sync_runs set seen = ${seen}, total = ${total ?? null} where id = ${id}`;
}

export async function endRun(sql: Sql, id: number, outcome: string, run: RunCounts): Promise<void> {
	await sql`
		update crm_sync_runs set ended_at = clock_timestamp(), outcome = ${outcome}, seen = ${run.seen},
			created = ${run.created}, changed = ${run.changed}, deleted = ${run.deleted},
			unread = ${run.unread}, requests = ${run.requests}
		where id = ${id}`;
}

const runColumns = (sql: Sql) => sql`
	kind, outcome, ${isoTime(sql, 'begun_at')} as begun_at, ${isoTime(sql, 'ended_at')} as ended_at,
	id::float8 as id, total::float8 as total, seen::float8 as seen, created::float8 as created, changed::float8 as changed,
	deleted::float8 as deleted, unread::float8 as unread, requests::float8 as requests`;

/** Returns the newest runs. */
export function readRuns(sql: Sql, limit: number): Promise<readonly RunRow[]> {
	return sql<RunRow[]>`select ${runColumns(sql)} from crm_sync_runs order by id desc limit ${limit}`;
}

/** Returns the run that serves a request: the first one that has taken this or a later request. */
export async function readServingRun(sql: Sql, requestedAt: string): Promise<RunRow | undefined> {
	const [run] = await sql<RunRow[]>`
		select ${runColumns(sql)} from crm_sync_runs
		where requested_at >= ${requestedAt}::text::timestamptz order by id limit 1`;
	return run;
}

/** A status shows the newest few runs; an investigation looks back some days. */
const keptRuns = { days: 30, max: 10_000 };

/** Deletes old runs and expired tombstones. Cheap enough for each run. */
export async function prune(sql: Sql): Promise<void> {
	await pruneTombstones(sql);
	await pruneUnreadablePhones(sql);
	await sql`
		delete from crm_sync_runs
		where id <= (select id from crm_sync_runs order by id desc offset ${keptRuns.max} limit 1)
		   or begun_at < clock_timestamp() - make_interval(days => ${keptRuns.days})`;
}

/** Closes the runs of a crashed synchroniser. The holder of the lock knows that no other run is in progress. */
export async function closeInterruptedRuns(sql: Sql): Promise<void> {
	await sql`update crm_sync_runs set ended_at = clock_timestamp(), outcome = 'interrupted' where ended_at is null`;
}
