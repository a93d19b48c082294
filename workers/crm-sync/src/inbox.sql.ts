import type { Sql } from '@contacts/common/database/client.js';
import { isDue } from './sync.sql.js';

export interface InboxRow {
	bitrix_id: number;
	/** As the database writes it, to the microsecond. */
	received_at: string;
	/** Number of failed attempts to read the contact. */
	attempts: number;
	/** Whether a command waits for the outcome. */
	requested: boolean;
}

/** Returns the due events, oldest first. */
export function readInbox(sql: Sql, limit: number, now: number): Promise<readonly InboxRow[]> {
	return sql<InboxRow[]>`
		select bitrix_id::float8 as bitrix_id, received_at::text as received_at, attempts, requested_at is not null as requested
		from crm_event_inbox
		where ${isDue(sql, now)}
		order by received_at limit ${limit}`;
}

/** What came of an event, for the command that has requested it. */
export type EventOutcome = 'saved' | 'deleted' | 'unknown' | 'denied' | 'unread';

/** Deletes handled events; of one that a command waits for, stores the outcome. An event that arrived again meanwhile stays. */
export async function finishEvents(sql: Sql, events: readonly (InboxRow & { outcome: EventOutcome })[]): Promise<void> {
	await sql`
		with done as materialized (
			select * from json_to_recordset(${JSON.stringify(events)}::text::json)
				as event (bitrix_id bigint, received_at timestamptz, outcome text)
		), reported as (
			update crm_event_inbox i set outcome = done.outcome from done
			where i.bitrix_id = done.bitrix_id and i.received_at <= done.received_at and i.requested_at is not null
		)
		delete from crm_event_inbox i using done
		where i.bitrix_id = done.bitrix_id and i.received_at <= done.received_at and i.requested_at is null`;
}

/** Requests that a contact is read again, like its event. */
export async function requestContact(sql: Sql, contactId: number): Promise<void> {
	await sql`
		insert into crm_event_inbox (bitrix_id, event, requested_at) values (${contactId}, 'REQUESTED', clock_timestamp())
		on conflict (bitrix_id) do update set
			requested_at = excluded.requested_at, outcome = null, attempts = 0, retry_at = null,
			received_at = greatest(clock_timestamp(), crm_event_inbox.received_at + interval '1 microsecond')`;
}

/** Takes the outcome of a requested contact. @returns null while there is none; undefined if the request is gone */
export async function takeContactOutcome(sql: Sql, contactId: number): Promise<EventOutcome | null | undefined> {
	const [row] = await sql<{ outcome: EventOutcome | null }[]>`
		with taken as (delete from crm_event_inbox where bitrix_id = ${contactId} and outcome is not null)
		select outcome from crm_event_inbox where bitrix_id = ${contactId} and requested_at is not null`;
	return row?.outcome;
}

/** Whether an event is due, and whether a command waits for one. */
export async function readInboxState(sql: Sql, now: number): Promise<{ due: boolean; requested: boolean }> {
	const [row] = await sql<[{ due: boolean; requested: boolean }]>`
		select exists (select from crm_event_inbox where ${isDue(sql, now)}) as due,
		       exists (
		           select from crm_event_inbox
		           where outcome is null and requested_at > clock_timestamp() - interval '10 minutes'
		       ) as requested`;
	return row;
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
export function storeEvent(sql: Sql, contactId: number, event: string) {
	return sql<[{ stored: boolean }]>`
		with inbox as materialized (
			select count(*) >= ${maxInboxContacts}::int as is_full
			from (select from crm_event_inbox limit ${maxInboxContacts}::int) counted
		), stored as (
			insert into crm_event_inbox (bitrix_id, event)
			select ${contactId}::bigint, ${event} from inbox
			where not is_full or exists (select from crm_event_inbox where bitrix_id = ${contactId}::bigint)
			on conflict (bitrix_id) do update set
				event = excluded.event, attempts = 0, retry_at = null, outcome = null,
				-- Later than the event that it replaces, even after the clock was set back.
				received_at = greatest(clock_timestamp(), crm_event_inbox.received_at + interval '1 microsecond')
			returning 1
		), due as (
			update crm_sync_state set last_full_at = null, full_begun_at = null
			where (last_full_at is not null or full_begun_at is not null) and not exists (select from stored)
		)
		select exists (select from stored) as stored`;
}
