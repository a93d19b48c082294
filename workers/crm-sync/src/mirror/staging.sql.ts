import {
	type ContactRow,
	contactColumnNames,
	type PartialContactRow,
} from '@contacts/common/contacts/company-contact-columns.sql.js';
import {
	type SaveResult,
	saveCompanyContacts,
	savedCounts,
	savingQuery,
} from '@contacts/common/contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import type { Found } from '../bitrix24/crm.js';
import { noFullRun } from './state.sql.js';

/** What the CRM has returned, as rows of the mirror. */
type FoundRows = Found<ContactRow>;

/** The rows of `crm_sync_staging` in JSON. */
function stagingRows({ contacts, unread, deleted, denied }: FoundRows): string {
	const without = (state: 'unread' | 'deleted' | 'denied', ids: Iterable<number>) =>
		[...ids].map((bitrix_id) => ({ bitrix_id, state }));
	return JSON.stringify([
		...contacts.map((contact) => ({ ...contact, state: 'listed' })),
		...without('unread', unread.keys()),
		...without('deleted', deleted),
		...without('denied', denied),
	]);
}

const restaged = ['state', ...contactColumnNames].map((column) => `${column} = excluded.${column}`).join(', ');

/** Stages contacts and moves the cursor past them in one statement. A crash loses both or neither. */
export async function stagePage(sql: Sql, rows: FoundRows, cursor: number): Promise<void> {
	await sql`
		with staged as (
			insert into crm_sync_staging
			select * from json_populate_recordset(null::crm_sync_staging, ${stagingRows(rows)}::text::json)
			on conflict (bitrix_id) do update set ${sql.unsafe(restaged)}
		)
		update crm_sync_state set full_cursor = greatest(full_cursor, ${cursor}::bigint)`;
}

/** Numbers of contacts. */
export interface StagingCounts {
	/** Those that the CRM has listed, read or not. */
	staged: number;
	unread: number;
	/** Those of the mirror. */
	live: number;
	/** Those of the mirror that the CRM has not listed, or has not returned when they were looked up. */
	missing: number;
	/** Those among the missing ones that may not be read. */
	denied: number;
	/** Those of the mirror that would lose their phone or their companies. */
	emptied: number;
}

export async function countStaging(sql: Sql): Promise<StagingCounts> {
	const [counts] = await sql<[StagingCounts]>`
		with crm as (
			select count(*) filter (where state in ('listed', 'unread'))::int as staged,
			       count(*) filter (where state = 'unread')::int as unread
			from crm_sync_staging
		), mirror as (
			select count(*)::int as live,
			       count(*) filter (where s.state is null or s.state in ('deleted', 'denied'))::int as missing,
			       count(*) filter (where s.state = 'denied')::int as denied,
			       count(*) filter (where s.state = 'listed' and (
			         c.phone is not null and s.phone is null or c.company_ids is not null and s.company_ids is null))::int as emptied
			from company_contacts c left join crm_sync_staging s using (bitrix_id)
		)
		select * from crm, mirror`;
	return counts;
}

/** Returns the contacts of the mirror that the full run has neither listed nor looked up. */
export async function readMissing(sql: Sql): Promise<number[]> {
	const rows = await sql<{ bitrix_id: number }[]>`
		select bitrix_id::float8 as bitrix_id from company_contacts c
		where not exists (select from crm_sync_staging s where s.bitrix_id = c.bitrix_id)
		order by bitrix_id`;
	return rows.map((row) => row.bitrix_id);
}

interface FullResult {
	/**
	 * What is too much to be lost without a confirmation: no missing contact was looked up, and no phone or company is taken away. With
	 * another configuration none is counted as `emptied`, and all are taken away.
	 */
	held: { run: number; deletions: number; emptied: number } | undefined;
	denied: number;
	/** Contacts that stay as they are. */
	unread: number;
}

/** The names of the columns of a staged contact that are empty, and keep what is stored while something is held. */
const emptyColumns = `array_remove(array[case when phone is null then 'phone' end,
	case when company_ids is null then 'company_ids' end], null)`;

interface FullChanges extends SaveResult {
	deleted: number;
	phones: { changed: number; removed: number };
}

/**
 * Makes all staged contacts and the deletions visible at once, and ends the run. Only a run without unread contacts has found
 * the mirror equal to the CRM.
 */
export async function finishFull(sql: Sql, { held, denied, unread }: FullResult): Promise<FullChanges> {
	const isComplete = unread === 0;
	const keepsEmpty = held !== undefined && held.emptied > 0;
	const absent = keepsEmpty ? emptyColumns : `'{}'::text[]`;
	const [changes] = await sql<[FullChanges]>`
		with ${sql.unsafe(savingQuery(`(select *, ${absent} as absent from crm_sync_staging where state = 'listed')`))},
		deleted as (
			delete from company_contacts c using crm_sync_staging s
			where s.state = 'deleted' and c.bitrix_id = s.bitrix_id
			returning 1
		), finished as (
			update crm_sync_state set
				watermark = case when ${isComplete} then full_watermark else watermark end,
				-- What has changed since the beginning may be missing: a run can take a day, with its interruptions.
				last_success_at = case when ${isComplete && held === undefined}
					then coalesce(full_begun_at, last_success_at) else last_success_at end,
				held_run = ${held?.run ?? null}, held_deletions = ${held?.deletions ?? null}, held_emptied = ${held?.emptied ?? null},
				remapped = remapped and ${!isComplete}, denied_contacts = ${denied}, unread_contacts = ${unread},
				-- No beginning since an event was dropped: the run may have read its contact before.
				last_full_at = case when ${isComplete} and full_begun_at is not null then clock_timestamp() end,
				blocked_by = null, blocked_until = null,
				${sql.unsafe(noFullRun)}
		), phones as (
			-- Of the table as it was before this statement.
			select count(*) filter (where s.phone <> c.phone) as changed, count(*) filter (where s.phone is null and ${!keepsEmpty}) as removed
			from crm_sync_staging s join company_contacts c using (bitrix_id)
			where s.state = 'listed' and c.phone is not null
		), discarded as (
			-- TRUNCATE would wait for every reader, such as a long dump.
			delete from crm_sync_staging
		)
		select ${sql.unsafe(savedCounts)}, (select count(*) from deleted)::int as deleted,
			(select row_to_json(phones) from phones) as phones`;
	return changes;
}

/**
 * Saves contacts outside of the pages of a full run. While something is held, an empty phone or list of companies keeps what is
 * stored, unless that may be of an earlier configuration. Rows that a full run in progress has staged follow: what it has found
 * deleted is not deleted if the contact is there or unread now.
 */
export async function saveContacts(
	sql: Sql,
	{ contacts, deleted, unread }: FoundRows,
): Promise<SaveResult & { deleted: number }> {
	const rows = stagingRows({ contacts, unread: new Map(), deleted: [], denied: [] });
	const [{ held, gone }] = await sql<[{ held: boolean; gone: number }]>`
		with unstaged as (
			delete from crm_sync_staging where bitrix_id = any (${`{${deleted}}`}::text::bigint[])
		), left_unread as (
			update crm_sync_staging set state = 'unread'
			where state = 'deleted' and bitrix_id = any (${`{${[...unread.keys()]}}`}::text::bigint[])
		), restaged as (
			insert into crm_sync_staging
			select given.* from json_populate_recordset(null::crm_sync_staging, ${rows}::text::json) given
			join crm_sync_staging using (bitrix_id)
			on conflict (bitrix_id) do update set ${sql.unsafe(restaged)}
		), gone as (
			delete from company_contacts where bitrix_id = any (${`{${deleted}}`}::text::bigint[]) returning 1
		)
		select held_run is not null and not remapped as held, (select count(*) from gone)::int as gone from crm_sync_state`;
	const saved = await saveCompanyContacts(sql, held ? contacts.map(withoutEmpty) : contacts);
	return { ...saved, deleted: gone };
}

function withoutEmpty({ phone, company_ids, ...contact }: ContactRow): PartialContactRow {
	return { ...contact, ...(phone !== null && { phone }), ...(company_ids !== null && { company_ids }) };
}
