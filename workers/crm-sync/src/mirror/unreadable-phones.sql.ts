import type { Sql } from '@contacts/common/database/client.js';

/** Contacts with a phone that could not be read, so that somebody corrects it in the CRM. */
export interface UnreadablePhones {
	count: number;
	/** Their IDs in the CRM, up to ten. */
	contacts: readonly number[];
}

/** Stores which of these contacts have a phone that could not be read. */
export async function saveUnreadablePhones(
	sql: Sql,
	read: readonly number[],
	unreadable: readonly number[],
): Promise<void> {
	await sql`
		with gone as (
			delete from crm_sync_unreadable_phones
			where bitrix_id = any (${`{${read}}`}::text::bigint[]) and not bitrix_id = any (${`{${unreadable}}`}::text::bigint[])
		)
		insert into crm_sync_unreadable_phones select unnest(${`{${unreadable}}`}::text::bigint[]) on conflict do nothing`;
}

/** Of the contacts in the mirror. */
export async function readUnreadablePhones(sql: Sql): Promise<UnreadablePhones> {
	const [row] = await sql<[UnreadablePhones]>`
		with unreadable as materialized (
			select bitrix_id from crm_sync_unreadable_phones join company_contacts using (bitrix_id) where phone is null
		)
		select count(*)::int as count,
			to_json(array(select bitrix_id from unreadable order by bitrix_id limit 10)) as contacts
		from unreadable`;
	return row;
}

/** Forgets contacts that are gone. Those of a full run in progress are not in the mirror yet. */
export async function pruneUnreadablePhones(sql: Sql): Promise<void> {
	await sql`
		delete from crm_sync_unreadable_phones unreadable
		where not exists (select from company_contacts c where c.bitrix_id = unreadable.bitrix_id)
		  and not exists (select from crm_sync_staging s where s.bitrix_id = unreadable.bitrix_id)`;
}

/** What a command says of them; undefined if there are none. */
export function describeUnreadablePhones({ count, contacts }: UnreadablePhones): string | undefined {
	if (count === 0) return undefined;
	const named = `${contacts.join(', ')}${count > contacts.length ? ', …' : ''}`;
	return `${count} contacts have a phone that can't be read, and are listed without one: ${named}.`;
}
