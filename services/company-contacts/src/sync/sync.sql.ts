import type { Sql } from '@contacts/common/database/client.js';
import type { StagedContact } from './mapping.js';

export interface SyncState {
	/** All times in milliseconds since the epoch; `watermark` and `full_watermark` by the CRM's clock. */
	watermark: number | null;
	last_success_at: number | null;
	last_full_at: number | null;
	full_watermark: number | null;
	full_begun_at: number | null;
	full_cursor: number | null;
	bucket_arrival: number;
	blocked_by: string | null;
	blocked_until: number | null;
	alarm: string | null;
	alarm_at: number | null;
}

export interface Changes {
	created: number;
	changed: number;
}

const epoch = (sql: Sql, column: string) => sql.unsafe(`(extract(epoch from ${column}) * 1000)::float8 as ${column}`);
const time = (milliseconds: number) => new Date(milliseconds).toISOString();

export async function readState(sql: Sql): Promise<SyncState> {
	const [state] = await sql<[SyncState]>`
		select ${epoch(sql, 'watermark')}, ${epoch(sql, 'last_success_at')}, ${epoch(sql, 'last_full_at')},
		       ${epoch(sql, 'full_watermark')}, ${epoch(sql, 'full_begun_at')}, full_cursor::float8 as full_cursor,
		       bucket_arrival, blocked_by, ${epoch(sql, 'blocked_until')}, alarm, ${epoch(sql, 'alarm_at')}
		from crm_sync_state`;
	return state;
}

/** Begins a full pass anew: nothing is staged. */
export async function beginFull(sql: Sql, watermark: number): Promise<void> {
	await sql`truncate crm_sync_staging`;
	await sql`
		update crm_sync_state
		set full_watermark = ${time(watermark)}::text::timestamptz, full_begun_at = now(), full_cursor = 0`;
}

/** Stages a page and moves the cursor behind it, in one statement: a crash loses both or neither. */
export async function stagePage(
	sql: Sql,
	contacts: StagedContact[],
	cursor: number,
	bucketArrival: number,
): Promise<void> {
	await sql`
		with staged as (
			insert into crm_sync_staging
			select * from json_populate_recordset(null::crm_sync_staging, ${JSON.stringify(contacts)}::text::json)
			on conflict (bitrix_id) do update set
				phone = excluded.phone, company_ids = excluded.company_ids, has_company_ids = excluded.has_company_ids,
				name = excluded.name, assigned_by_id = excluded.assigned_by_id,
				trouble_contact = excluded.trouble_contact, perplexity_reason = excluded.perplexity_reason
		)
		update crm_sync_state set full_cursor = greatest(full_cursor, ${cursor}::bigint), bucket_arrival = ${bucketArrival}`;
}

export interface StagingCounts {
	staged: number;
	/** Contacts of the mirror. */
	live: number;
	/** Those of them that are not staged. */
	missing: number;
}

export async function countStaging(sql: Sql): Promise<StagingCounts> {
	const [counts] = await sql<[StagingCounts]>`
		select (select count(*) from crm_sync_staging)::int as staged,
		       count(*)::int as live,
		       count(*) filter (where s.bitrix_id is null)::int as missing
		from company_contacts c left join crm_sync_staging s using (bitrix_id)`;
	return counts;
}

export async function readMissing(sql: Sql): Promise<number[]> {
	const rows = await sql<{ bitrix_id: number }[]>`
		select bitrix_id::float8 as bitrix_id from company_contacts c
		where not exists (select from crm_sync_staging s where s.bitrix_id = c.bitrix_id)
		order by bitrix_id`;
	return rows.map((row) => row.bitrix_id);
}

/** Makes everything that was staged, and these deletions, visible at once. */
export async function finishFull(sql: Sql, deletedIds: number[]): Promise<Changes & { deleted: number }> {
	const [changes] = await sql<[Changes & { deleted: number }]>`
		select * from finish_crm_full_pass(array(select json_array_elements_text(${JSON.stringify(deletedIds)}::text::json)::bigint))`;
	return changes;
}

/** Saves contacts that were read singly or by their time of change; a full pass under way hears of them too. */
export async function saveContacts(sql: Sql, contacts: StagedContact[]): Promise<Changes> {
	const [changes] = await sql<[Changes]>`
		with given as (
			select * from json_populate_recordset(null::crm_sync_staging, ${JSON.stringify(contacts)}::text::json)
		), staged as (
			update crm_sync_staging s set
				phone = g.phone, company_ids = g.company_ids, has_company_ids = g.has_company_ids, name = g.name,
				assigned_by_id = g.assigned_by_id, trouble_contact = g.trouble_contact, perplexity_reason = g.perplexity_reason
			from given g where g.bitrix_id = s.bitrix_id
		)
		select * from save_crm_contacts(array(select given::crm_sync_staging from given))`;
	return changes;
}

/** Deletes contacts that the CRM has confirmed as deleted; a full pass under way hears of it too. */
export async function deleteContacts(sql: Sql, ids: number[]): Promise<number> {
	const [row] = await sql<[{ deleted: number }]>`
		with gone as (
			select json_array_elements_text(${JSON.stringify(ids)}::text::json)::bigint as bitrix_id
		), unstaged as (
			delete from crm_sync_staging using gone where crm_sync_staging.bitrix_id = gone.bitrix_id
		), deleted as (
			delete from company_contacts using gone where company_contacts.bitrix_id = gone.bitrix_id returning 1
		)
		select count(*)::int as deleted from deleted`;
	return row.deleted;
}

export async function finishIncremental(sql: Sql, watermark: number): Promise<void> {
	await sql`
		update crm_sync_state
		set watermark = ${time(watermark)}::text::timestamptz, last_success_at = clock_timestamp(),
		    blocked_by = null, blocked_until = null`;
}

export async function saveBucket(sql: Sql, arrival: number): Promise<void> {
	await sql`update crm_sync_state set bucket_arrival = ${arrival}`;
}

/** What keeps the synchroniser from working; null when nothing does. */
export async function saveBlock(sql: Sql, code: string | null, until: number | null): Promise<void> {
	await sql`
		update crm_sync_state
		set blocked_by = ${code}, blocked_until = ${until === null ? null : time(until)}::text::timestamptz`;
}

/** What somebody has to look at; null when it is settled. */
export async function saveAlarm(sql: Sql, alarm: string | null): Promise<void> {
	await sql`update crm_sync_state set alarm = ${alarm}, alarm_at = case when ${alarm}::text is null then null else now() end`;
}

export type RunKind = 'full' | 'incremental' | 'events' | 'contact';

export interface RunRow extends Changes {
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

/** The newest runs. */
export function readRuns(sql: Sql, limit: number): Promise<readonly RunRow[]> {
	const iso = (column: string) =>
		sql.unsafe(`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as ${column}`);
	return sql<RunRow[]>`
		select kind, ${iso('begun_at')}, ${iso('ended_at')}, outcome, seen::float8 as seen, created::float8 as created,
		       changed::float8 as changed, deleted::float8 as deleted, requests::float8 as requests
		from crm_sync_runs order by id desc limit ${limit}`;
}

export interface InboxRow {
	bitrix_id: number;
	/** As the database writes it: to the microsecond. */
	received_at: string;
}

export function readInbox(sql: Sql, limit: number): Promise<readonly InboxRow[]> {
	return sql<InboxRow[]>`
		select bitrix_id::float8 as bitrix_id, received_at::text as received_at
		from crm_event_inbox order by received_at limit ${limit}`;
}

/** Forgets events that were dealt with, but not one that has come again meanwhile. */
export async function clearInbox(sql: Sql, rows: readonly InboxRow[]): Promise<void> {
	await sql`
		delete from crm_event_inbox i
		using json_to_recordset(${JSON.stringify(rows)}::text::json) as done (bitrix_id bigint, received_at timestamptz)
		where i.bitrix_id = done.bitrix_id and i.received_at <= done.received_at`;
}
