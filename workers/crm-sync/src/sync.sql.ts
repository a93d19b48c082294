import { pruneTombstones, type SaveResult } from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import type { MirrorConfiguration } from './mirror-configuration.js';

export interface SyncState {
	/** All times are in milliseconds since the epoch; `watermark` and `full_watermark` by the CRM's clock. */
	watermark: number | null;
	/** When the last successful pass began: the mirror is equal to the CRM as it was then. */
	last_success_at: number | null;
	last_full_at: number | null;
	full_watermark: number | null;
	full_begun_at: number | null;
	full_cursor: number | null;
	/** Whether somebody has confirmed the deletions of the full pass in progress. */
	full_confirmed: boolean;
	bucket_arrival: number;
	blocked_by: string | null;
	blocked_until: number | null;
	/** A problem that somebody has to look at. */
	alarm: string | null;
	alarm_at: number | null;
	/** The configuration of the mirror; null while unknown. */
	configuration: MirrorConfiguration | null;
}

const epoch = (sql: Sql, column: string) => sql.unsafe(`(extract(epoch from ${column}) * 1000)::float8 as ${column}`);
const time = (milliseconds: number) => new Date(milliseconds).toISOString();

/**
 * Whether an event of the inbox is due.
 *
 * @param now milliseconds since the epoch
 */
export const isDue = (sql: Sql, now: number) => sql`(retry_at is null or retry_at <= ${time(now)}::text::timestamptz)`;

/** The beginning of the alarm that is raised while a full pass has held back deletions: the mirror is not equal to the CRM. */
export const heldBackPrefix = 'mass_delete: ';

export async function readState(sql: Sql): Promise<SyncState> {
	const [state] = await sql<[SyncState]>`
		select ${epoch(sql, 'watermark')}, ${epoch(sql, 'last_success_at')}, ${epoch(sql, 'last_full_at')},
		       ${epoch(sql, 'full_watermark')}, ${epoch(sql, 'full_begun_at')}, full_cursor::float8 as full_cursor,
		       full_confirmed, bucket_arrival, blocked_by, ${epoch(sql, 'blocked_until')}, alarm, ${epoch(sql, 'alarm_at')},
		       configuration
		from crm_sync_state`;
	return state;
}

/** Starts a full pass from the beginning: nothing is staged. */
export async function beginFull(sql: Sql, watermark: number): Promise<void> {
	await sql`
		with discarded as (delete from crm_sync_staging)
		update crm_sync_state
		set full_watermark = ${time(watermark)}::text::timestamptz, full_begun_at = now(), full_cursor = 0,
		    full_confirmed = false`;
}

/** Allows the full pass in progress any number of deletions, also after a pause or a restart. */
export async function confirmFull(sql: Sql): Promise<void> {
	await sql`update crm_sync_state set full_confirmed = true`;
}

/** Discards an unfinished full pass. */
export async function discardFull(sql: Sql): Promise<void> {
	await sql`
		with discarded as (delete from crm_sync_staging)
		update crm_sync_state
		set full_watermark = null, full_begun_at = null, full_cursor = null, full_confirmed = false`;
}

/** Ends an incremental pass, whose run is the newest one of its kind. The mirror has what had changed until that run began. */
export async function finishIncremental(sql: Sql, watermark: number): Promise<void> {
	await sql`
		update crm_sync_state
		set watermark = ${time(watermark)}::text::timestamptz, blocked_by = null, blocked_until = null,
		    last_success_at = case when starts_with(alarm, ${heldBackPrefix}) then last_success_at
		        else (select begun_at from crm_sync_runs where kind = 'incremental' order by id desc limit 1) end`;
}

export async function saveBucket(sql: Sql, arrival: number): Promise<void> {
	await sql`update crm_sync_state set bucket_arrival = ${arrival}`;
}

/** The reason why the synchroniser does not work; null if none. */
export async function saveBlock(sql: Sql, code: string | null, until: number | null): Promise<void> {
	await sql`
		update crm_sync_state
		set blocked_by = ${code}, blocked_until = ${until === null ? null : time(until)}::text::timestamptz`;
}

/** Stores the new configuration of the mirror. A full pass then reads everything again with it. */
export async function saveConfiguration(sql: Sql, configuration: MirrorConfiguration): Promise<void> {
	await sql`
		with discarded as (delete from crm_sync_staging)
		update crm_sync_state
		set configuration = ${JSON.stringify(configuration)}::text::jsonb, watermark = null,
		    full_watermark = null, full_begun_at = null, full_cursor = null`;
}

export interface SyncFreshness {
	/** The time as of which the mirror is equal to the CRM, in milliseconds since the epoch; null if never. */
	synced_at: number | null;
	blocked: boolean;
	alarm: boolean;
}

/** Returns the state of the mirror. */
export function readFreshness(sql: Sql) {
	return sql<[SyncFreshness]>`
		select (extract(epoch from last_success_at) * 1000)::float8 as synced_at,
		       blocked_by is not null as blocked, alarm is not null as alarm
		from crm_sync_state`;
}

export type RunKind = 'full' | 'incremental' | 'events' | 'contact';

interface RunRow extends SaveResult {
	kind: RunKind;
	begun_at: string;
	ended_at: string | null;
	outcome: string | null;
	seen: number;
	deleted: number;
	requests: number;
}

export async function beginRun(sql: Sql, kind: RunKind): Promise<string> {
	const [row] = await sql<[{ id: string }]>`insert into crm_sync_runs (kind) values (${kind}) returning id`;
	return row.id;
}

export async function endRun(
	sql: Sql,
	id: string,
	outcome: string,
	counts: Omit<RunRow, 'kind' | 'begun_at' | 'ended_at' | 'outcome'>,
): Promise<void> {
	await sql`
		update crm_sync_runs set ended_at = clock_timestamp(), outcome = ${outcome}, seen = ${counts.seen},
			created = ${counts.created}, changed = ${counts.changed}, deleted = ${counts.deleted}, requests = ${counts.requests}
		where id = ${id}`;
}

/** Returns the newest runs. */
export function readRuns(sql: Sql, limit: number): Promise<readonly RunRow[]> {
	const iso = (column: string) =>
		sql.unsafe(`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as ${column}`);
	return sql<RunRow[]>`
		select kind, ${iso('begun_at')}, ${iso('ended_at')}, outcome, seen::float8 as seen, created::float8 as created,
		       changed::float8 as changed, deleted::float8 as deleted, requests::float8 as requests
		from crm_sync_runs order by id desc limit ${limit}`;
}

/** A status shows the newest few runs; an investigation looks back some days. */
const keptRuns = { days: 30, max: 10_000 };

/** Deletes old runs, abandoned requests and expired tombstones. Cheap enough for each pass. */
export async function prune(sql: Sql): Promise<void> {
	await pruneTombstones(sql);
	await sql`
		with old_requests as (
			delete from crm_sync_requests where wanted_until < clock_timestamp() - interval '1 day'
		)
		delete from crm_sync_runs
		where id <= (select id from crm_sync_runs order by id desc offset ${keptRuns.max} limit 1)
		   or begun_at < clock_timestamp() - make_interval(days => ${keptRuns.days})`;
}

/** Closes the runs of a crashed synchroniser. The holder of the lock knows that no other run is in progress. */
export async function closeInterruptedRuns(sql: Sql): Promise<void> {
	await sql`update crm_sync_runs set ended_at = clock_timestamp(), outcome = 'interrupted' where ended_at is null`;
}
