import { pruneTombstones, type SaveResult } from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import type { MirrorConfiguration } from './configuration.js';
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
	/** How many contacts somebody has confirmed to be lost in the full run under way. */
	full_confirmed: number | null;
	/** The run that holds what it would take away: how many contacts are missing, and how many would lose their phone or companies. */
	held_run: number | null;
	held_deletions: number | null;
	held_emptied: number | null;
	/** Whether somebody has confirmed this configuration, and no full run with it is done. */
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

/** A request and a confirmation count for ten minutes: what somebody has given up must not happen next week. */
const stillCounts = (sql: Sql, column: string) => sql.unsafe(`${column} > clock_timestamp() - interval '10 minutes'`);

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
	await sql`
		update crm_sync_state set configuration = ${JSON.stringify(configuration)}::text::jsonb, watermark = null`;
	if (isConfirmed)
		await sql`update crm_sync_state set remapped = true, held_run = null, held_deletions = null, held_emptied = null`;
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
export interface RunCounts extends SaveResult {
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

export async function saveProgress(sql: Sql, id: number, seen: number, total: number | undefined): Promise<void> {
	await sql`update crm_sync_runs set seen = ${seen}, total = ${total ?? null} where id = ${id}`;
}

/** @param run its kind, too: what the CRM tells may have made it another one */
export async function endRun(sql: Sql, id: number, outcome: string, run: RunCounts & { kind: RunKind }): Promise<void> {
	await sql`
		update crm_sync_runs set ended_at = clock_timestamp(), outcome = ${outcome}, kind = ${run.kind}, seen = ${run.seen},
			created = ${run.created}, changed = ${run.changed}, deleted = ${run.deleted},
			unread = ${run.unread}, requests = ${run.requests}
		where id = ${id}`;
}

const runColumns = (sql: Sql) => {
	const iso = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as ${column}`;
	const counted = ['id', 'total', 'seen', 'created', 'changed', 'deleted', 'unread', 'requests'];
	return sql.unsafe(
		[
			'kind',
			'outcome',
			...['begun_at', 'ended_at'].map(iso),
			...counted.map((name) => `${name}::float8 as ${name}`),
		].join(),
	);
};

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
