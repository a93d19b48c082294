import type { Sql } from '@contacts/common/database/client.js';

interface InboxRow {
	bitrix_id: number;
	/** As the database writes it, to the microsecond. */
	received_at: string;
	/** Number of failed attempts to read the contact. */
	attempts: number;
}

/**
 * Whether an event is due.
 *
 * @param now milliseconds since the epoch
 */
const isDue = (sql: Sql, now: number) =>
	sql`(retry_at is null or retry_at <= ${new Date(now).toISOString()}::text::timestamptz)`;

/** Returns the due events, oldest first. */
export function readInbox(sql: Sql, limit: number, now: number): Promise<readonly InboxRow[]> {
	return sql<InboxRow[]>`
		select bitrix_id::float8 as bitrix_id, received_at::text as received_at, attempts
		from crm_event_inbox
		where ${isDue(sql, now)}
		order by received_at limit ${limit}`;
}

/** Deletes handled events. An event that arrived again meanwhile stays. */
export async function finishEvents(sql: Sql, events: readonly InboxRow[]): Promise<void> {
	await sql`
		delete from crm_event_inbox i
		using json_to_recordset(${JSON.stringify(events)}::text::json) as done (bitrix_id bigint, received_at timestamptz)
		where i.bitrix_id = done.bitrix_id and i.received_at <= done.received_at`;
}

/** Whether any event is due. */
export async function hasDueEvents(sql: Sql, now: number): Promise<boolean> {
	const [row] = await sql<[{ due: boolean }]>`
		select exists (select from crm_event_inbox where ${isDue(sql, now)}) as due`;
	return row.due;
}

/** Postpones an event whose contact could not be read. An event that arrived again meanwhile stays due. */
export async function postponeEvent(sql: Sql, { bitrix_id, received_at }: InboxRow, until: number): Promise<void> {
	await sql`
		update crm_event_inbox
		set attempts = attempts + 1, retry_at = ${new Date(until).toISOString()}::text::timestamptz
		where bitrix_id = ${bitrix_id} and received_at <= ${received_at}::text::timestamptz`;
}

/**
 * Maximum number of contacts in the inbox, approximately. To read them all takes a quarter of an hour, at 50 contacts a request
 * and 2 requests a second. A full run is faster. The limit also bounds the inbox of a stopped synchroniser.
 */
const maxInboxContacts = 100_000;

/**
 * Stores the event of a contact. It replaces an event of the same contact.
 *
 * @returns `stored: false` when the inbox is full: a full run that begins later is then due, which finds the change
 */
export function storeEvent(sql: Sql, contactId: number) {
	return sql<[{ stored: boolean }]>`
		with inbox as materialized (
			select count(*) >= ${maxInboxContacts}::int as is_full
			from (select from crm_event_inbox limit ${maxInboxContacts}::int) counted
		), stored as (
			insert into crm_event_inbox (bitrix_id)
			select ${contactId}::bigint from inbox
			where not is_full or exists (select from crm_event_inbox where bitrix_id = ${contactId}::bigint)
			on conflict (bitrix_id) do update set
				attempts = 0, retry_at = null,
				-- Later than the event that it replaces, even after the clock was set back.
				received_at = greatest(clock_timestamp(), crm_event_inbox.received_at + interval '1 microsecond')
			returning 1
		), due as (
			update crm_sync_state set last_full_at = null, full_begun_at = null
			where (last_full_at is not null or full_begun_at is not null) and not exists (select from stored)
		)
		select exists (select from stored) as stored`;
}
