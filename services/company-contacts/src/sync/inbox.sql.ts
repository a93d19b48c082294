import type { Sql } from '@contacts/common/database/client.js';

export interface InboxRow {
	bitrix_id: number;
	/** As the database writes it: to the microsecond. */
	received_at: string;
	/** How often the contact was asked for in vain. */
	attempts: number;
}

/** Events that are due, the oldest first. */
export function readInbox(sql: Sql, limit: number, now: number): Promise<readonly InboxRow[]> {
	return sql<InboxRow[]>`
		select bitrix_id::float8 as bitrix_id, received_at::text as received_at, attempts
		from crm_event_inbox
		where retry_at is null or retry_at <= ${new Date(now).toISOString()}::text::timestamptz
		order by received_at limit ${limit}`;
}

/** Forgets events that were dealt with, but not one that has come again meanwhile. */
export async function clearInbox(sql: Sql, rows: readonly InboxRow[]): Promise<void> {
	await sql`
		delete from crm_event_inbox i
		using json_to_recordset(${JSON.stringify(rows)}::text::json) as done (bitrix_id bigint, received_at timestamptz)
		where i.bitrix_id = done.bitrix_id and i.received_at <= done.received_at`;
}

/** Has an event wait after an attempt in vain; one that has come again meanwhile is due as it is. */
export async function postponeEvent(sql: Sql, { bitrix_id, received_at }: InboxRow, until: number): Promise<void> {
	await sql`
		update crm_event_inbox
		set attempts = attempts + 1, retry_at = ${new Date(until).toISOString()}::text::timestamptz
		where bitrix_id = ${bitrix_id} and received_at <= ${received_at}::text::timestamptz`;
}
