import { type ContactRow, contactColumnNames } from '@contacts/common/contacts/company-contact-columns.sql.js';
import {
	type SaveResult,
	saveCompanyContacts,
	savedCounts,
	savingQuery,
} from '@contacts/common/contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { noFullRun } from './sync.sql.js';

/** What is known of a contact besides its columns, if it has been read. */
type StagedState = 'listed' | 'contradictory' | 'unread' | 'deleted' | 'denied';

/** What a request of a full run has read. */
export interface Staged {
	contacts: readonly ContactRow[];
	/** Those among `contacts` that contradict themselves. */
	contradictory: ReadonlyMap<number, unknown>;
	/** Contacts that could not be read. */
	unread?: ReadonlyMap<number, unknown>;
	/** Contacts that the CRM confirmed as deleted. */
	deleted?: readonly number[];
	/** Contacts that the webhook's user may not read. */
	denied?: readonly number[];
}

/** The rows of `crm_sync_staging` in JSON. */
function stagingRows({ contacts, contradictory, unread, deleted = [], denied = [] }: Staged): string {
	const without = (state: StagedState, ids: Iterable<number>) => [...ids].map((bitrix_id) => ({ bitrix_id, state }));
	return JSON.stringify([
		...contacts.map((contact) => ({
			...contact,
			state: contradictory.has(contact.bitrix_id) ? 'contradictory' : 'listed',
		})),
		...without('unread', unread?.keys() ?? []),
		...without('deleted', deleted),
		...without('denied', denied),
	]);
}

const restaged = ['state', ...contactColumnNames].map((column) => `${column} = excluded.${column}`).join(', ');

/** Stages contacts and moves the cursor past them in one statement. A crash loses both or neither. */
export async function stagePage(sql: Sql, staged: Staged, cursor: number): Promise<void> {
	await sql`
		with staged as (
			insert into crm_sync_staging
			select * from json_populate_recordset(null::crm_sync_staging, ${stagingRows(staged)}::text::json)
			on conflict (bitrix_id) do update set ${sql.unsafe(restaged)}
		)
		update crm_sync_state set full_cursor = greatest(full_cursor, ${cursor}::bigint)`;
}

interface StagingCounts {
	/** Number of contacts that are in the CRM, read or not. */
	staged: number;
	contradictory: number;
	unread: number;
	denied: number;
	/** Number of contacts in the mirror. */
	live: number;
	/** Number of those that were not listed. */
	missing: number;
}

export async function countStaging(sql: Sql): Promise<StagingCounts> {
	const [counts] = await sql<[StagingCounts]>`
		with states as (
			select count(*) filter (where state not in ('deleted', 'denied'))::int as staged,
			       count(*) filter (where state = 'contradictory')::int as contradictory,
			       count(*) filter (where state = 'unread')::int as unread,
			       count(*) filter (where state = 'denied')::int as denied
			from crm_sync_staging
		), mirror as (
			select count(*)::int as live, count(*) filter (where s.bitrix_id is null)::int as missing
			from company_contacts c
			left join (select bitrix_id from crm_sync_staging where state not in ('deleted', 'denied')) s using (bitrix_id)
		)
		select * from states, mirror`;
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
	/** Deletions that are too many to happen without a confirmation: no missing contact was looked up. */
	held: { run: number; deletions: number } | undefined;
	denied: number;
	/** Contacts that stay as they are, with those that contradict themselves if they are not believed. */
	unread: number;
	contradictory: number;
	/** Whether the contacts that contradict themselves are saved. */
	isBelieved: boolean;
}

/**
 * Makes all staged contacts and the deletions visible at once, and ends the run. Only a run without unread contacts has found
 * the mirror equal to the CRM.
 */
export async function finishFull(
	sql: Sql,
	{ held, denied, unread, contradictory, isBelieved }: FullResult,
): Promise<SaveResult & { deleted: number; phones: { changed: number; removed: number } }> {
	const isComplete = unread === 0;
	const read = isBelieved ? `'listed', 'contradictory'` : `'listed'`;
	const [changes] = await sql<[SaveResult & { deleted: number; phones: { changed: number; removed: number } }]>`
		with ${sql.unsafe(savingQuery(`(select *, '{}'::text[] as absent from crm_sync_staging where state in (${read}))`))},
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
				held_run = ${held?.run ?? null}, held_deletions = ${held?.deletions ?? null},
				denied_contacts = ${denied}, unread_contacts = ${unread}, contradictory_contacts = ${contradictory},
				-- No beginning since an event was dropped: the run may have read its contact before.
				last_full_at = case when ${isComplete} and full_begun_at is not null then clock_timestamp() end,
				blocked_by = null, blocked_until = null,
				${sql.unsafe(noFullRun)}
		), phones as (
			-- Of the table as it was before this statement.
			select count(*) filter (where s.phone <> c.phone) as changed, count(*) filter (where s.phone is null) as removed
			from crm_sync_staging s join company_contacts c using (bitrix_id)
			where s.state in (${sql.unsafe(read)}) and c.phone is not null
		), emptied as (
			-- TRUNCATE would wait for every reader, such as a long dump.
			delete from crm_sync_staging
		)
		select ${sql.unsafe(savedCounts)}, (select count(*) from deleted)::int as deleted,
			(select row_to_json(phones) from phones) as phones`;
	return changes;
}

/** What single contacts are now, by a look-up outside of the pages. */
type Changes = Required<Omit<Staged, 'denied'>>;

/**
 * Saves contacts outside of the pages of a full run. Rows that such a run in progress has staged follow: what it has found
 * deleted is not deleted if the contact is there or unread now.
 */
export async function saveContacts(
	sql: Sql,
	{ contacts, contradictory, deleted, unread }: Changes,
): Promise<SaveResult & { deleted: number }> {
	if (deleted.length > 0 || unread.size > 0) {
		await sql`
			with gone as (delete from crm_sync_staging where bitrix_id = any (${`{${deleted}}`}::text::bigint[]))
			update crm_sync_staging set state = 'unread'
			where state = 'deleted' and bitrix_id = any (${`{${[...unread.keys()]}}`}::text::bigint[])`;
	}
	if (contacts.length > 0) {
		await sql`
			insert into crm_sync_staging
			select given.* from json_populate_recordset(null::crm_sync_staging, ${stagingRows({ contacts, contradictory })}::text::json) given
			join crm_sync_staging using (bitrix_id)
			on conflict (bitrix_id) do update set ${sql.unsafe(restaged)}`;
	}
	const saved = contacts.length === 0 ? { created: 0, changed: 0 } : await saveCompanyContacts(sql, contacts);
	const gone =
		deleted.length === 0
			? []
			: await sql`
				delete from company_contacts where bitrix_id = any (${`{${deleted}}`}::text::bigint[]) returning 1`;
	return { ...saved, deleted: gone.length };
}
