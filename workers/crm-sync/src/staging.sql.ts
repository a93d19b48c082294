import {
	type CompanyContactFields,
	type ContactColumn,
	contactColumnNames,
} from '@contacts/common/company-contacts/company-contact-columns.sql.js';
import {
	absentColumns,
	type SaveResult,
	saveCompanyContacts,
	savedCounts,
	savingQueries,
} from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { isDue } from './sync.sql.js';

/** Contacts as rows of `crm_sync_staging`, in JSON. Its column `untold` has the names of the absent columns. */
function stagingRows(contacts: readonly CompanyContactFields[]): string {
	const rows = contacts.map((contact) => ({
		...contact,
		trouble_contact: contact.trouble_contact ?? false,
		untold: absentColumns(contact),
	}));
	return JSON.stringify(rows);
}

/** Updates a staged contact. A column that the CRM did not return this time keeps its staged value. */
function restage(sql: Sql, read: 'excluded' | 'g') {
	const columns = contactColumnNames.map(
		(column) => `${column} = case when '${column}' = any (${read}.untold) then s.${column} else ${read}.${column} end`,
	);
	const untold = `untold = array(select unnest(s.untold) intersect select unnest(${read}.untold)), missing = null`;
	return sql.unsafe([...columns, untold].join(', '));
}

interface StagedPage {
	contacts: CompanyContactFields[];
	cursor: number;
	/** Milliseconds since the epoch. */
	now: number;
}

/**
 * Stages contacts and moves the cursor past them in one statement. A crash loses both or neither.
 *
 * @returns whether events wait in the inbox
 */
export async function stagePage(sql: Sql, { contacts, cursor, now }: StagedPage): Promise<{ eventsDue: boolean }> {
	const [row] = await sql<[{ eventsDue: boolean }]>`
		with staged as (
			insert into crm_sync_staging as s
			select * from json_populate_recordset(null::crm_sync_staging, ${stagingRows(contacts)}::text::json)
			on conflict (bitrix_id) do update set ${restage(sql, 'excluded')}
		)
		update crm_sync_state set full_cursor = greatest(full_cursor, ${cursor}::bigint)
		returning exists (select from crm_event_inbox where ${isDue(sql, now)}) as "eventsDue"`;
	return row;
}

interface StagingCounts {
	staged: number;
	/** Number of contacts in the mirror. */
	live: number;
	/** Number of those that are not staged. */
	missing: number;
}

export async function countStaging(sql: Sql): Promise<StagingCounts> {
	const [counts] = await sql<[StagingCounts]>`
		select (select count(*) from crm_sync_staging where missing is null)::int as staged,
		       count(*)::int as live,
		       count(*) filter (where s.bitrix_id is null)::int as missing
		from company_contacts c
		left join (select bitrix_id from crm_sync_staging where missing is null) s using (bitrix_id)`;
	return counts;
}

/** Counts the staged contacts that the CRM returned incompletely, and names the columns that it left out. */
export async function readIncomplete(sql: Sql): Promise<{ contacts: number; columns: string[] }> {
	const [incomplete] = await sql<[{ contacts: number; columns: string[] }]>`
		select count(distinct bitrix_id)::int as contacts, coalesce(json_agg(distinct absent_column), '[]') as columns
		from crm_sync_staging cross join unnest(untold) absent_column where missing is null`;
	return incomplete;
}

export async function readMirroredIds(sql: Sql): Promise<number[]> {
	const rows = await sql<{ bitrix_id: number }[]>`
		select bitrix_id::float8 as bitrix_id from company_contacts`;
	return rows.map((row) => row.bitrix_id);
}

/** Returns the contacts of the mirror that the full pass has neither listed nor looked up. */
export async function readMissing(sql: Sql): Promise<number[]> {
	const rows = await sql<{ bitrix_id: number }[]>`
		select bitrix_id::float8 as bitrix_id from company_contacts c
		where not exists (select from crm_sync_staging s where s.bitrix_id = c.bitrix_id)
		order by bitrix_id`;
	return rows.map((row) => row.bitrix_id);
}

/**
 * Stages the results for contacts that were not listed: `deleted`, or a code. A contact staged meanwhile stays. All columns are
 * absent, so that of a contact which comes back only the columns that the CRM returned are saved.
 */
export async function stageMissing(sql: Sql, missing: Map<number, string>): Promise<void> {
	const rows = [...missing].map(([bitrix_id, code]) => ({ bitrix_id, code }));
	await sql`
		insert into crm_sync_staging (bitrix_id, trouble_contact, untold, missing)
		select bitrix_id, false, ${`{${contactColumnNames}}`}::text[], code
		from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (bitrix_id bigint, code text)
		on conflict do nothing`;
}

/** Counts the contacts that were looked up and not found, by result. */
export async function countLookedUp(sql: Sql): Promise<Map<string, number>> {
	const rows = await sql<{ missing: string; count: number }[]>`
		select missing, count(*)::int as count from crm_sync_staging where missing is not null group by missing`;
	return new Map(rows.map(({ missing, count }) => [missing, count]));
}

/** Makes all staged contacts and the deletions visible at once, and ends the pass. */
export async function finishFull(
	sql: Sql,
	{ complete, mayDelete, alarm }: { complete: boolean; mayDelete: boolean; alarm: string | null },
): Promise<SaveResult & { deleted: number }> {
	// The same columns can be stored in any order. As two groups, their rows would be written twice in one statement: an error.
	const groups = await sql<{ absent: ContactColumn[] }[]>`
		select to_json(absent) as absent from (
			select distinct array(select name from unnest(untold) name order by name) as absent
			from crm_sync_staging where missing is null
		) groups`;
	const saving = savingQueries(
		'(select *, untold as absent from crm_sync_staging where missing is null)',
		groups.map(({ absent }) => absent),
		{ onlyWhole: true },
	);
	const [changes] = await sql<[SaveResult & { deleted: number }]>`
		with ${sql.unsafe(saving)}, deleted as (
			delete from company_contacts c using crm_sync_staging s
			where ${complete && mayDelete} and s.missing = 'deleted' and c.bitrix_id = s.bitrix_id
			returning 1
		), finished as (
			update crm_sync_state set
				watermark = case when ${complete} then full_watermark else watermark end,
				-- What has changed since the beginning may be missing: a pass can take a day, with its interruptions.
				last_success_at = case when ${complete && mayDelete}
					then coalesce(full_begun_at, last_success_at) else last_success_at end,
				alarm = ${alarm}::text, alarm_at = case when ${alarm}::text is null then null else clock_timestamp() end,
				-- Null since an event was dropped: the pass may have read its contact before.
				last_full_at = case when ${complete} and full_begun_at is not null then clock_timestamp() else last_full_at end,
				blocked_by = case when ${complete} then null else blocked_by end,
				blocked_until = case when ${complete} then null else blocked_until end,
				full_watermark = null, full_begun_at = null, full_cursor = null, full_confirmed = false
		), emptied as (
			-- TRUNCATE would wait for every reader, such as a long dump.
			delete from crm_sync_staging
		)
		select ${sql.unsafe(savedCounts)}, (select count(*) from deleted)::int as deleted`;
	return changes;
}

/** Saves contacts outside of a full pass. It first updates their staged rows of a full pass in progress. */
export async function saveContacts(sql: Sql, contacts: CompanyContactFields[]): Promise<SaveResult> {
	await sql`
		update crm_sync_staging s set ${restage(sql, 'g')}
		from json_populate_recordset(null::crm_sync_staging, ${stagingRows(contacts)}::text::json) g
		where g.bitrix_id = s.bitrix_id`;
	return saveCompanyContacts(sql, contacts, { onlyWhole: true });
}

/** Deletes contacts that the CRM confirmed as deleted, also from the staged rows of a full pass in progress. */
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
