import type { Sql } from '@contacts/common/database/client.js';
import { contactJson } from '@contacts/company-contacts/company-contact-columns.sql.js';
import { type Chats, contact } from './load/upserts.js';

/** Settings that affect the cost of a durable commit. */
export const durability = ['fsync', 'synchronous_commit', 'full_page_writes'] as const;

export async function readSettings(sql: Sql): Promise<Record<string, string>> {
	const names = [...durability, 'wal_sync_method', 'shared_buffers', 'max_connections'];
	const rows = await sql<{ name: string; value: string }[]>`
		select name, current_setting(name) as value from pg_settings where name in ${sql(names)}`;
	return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}

export async function readVersion(sql: Sql): Promise<string> {
	const [row] = await sql<{ version: string }[]>`select current_setting('server_version') as version`;
	return row?.version ?? '';
}

/** The number of companies for this many contacts. Each is the primary company of eight, and every fourth contact has a second one. */
export const companiesOf = (contacts: number) => Math.ceil(contacts / 8);

/** Replaces the company contacts with this many made-up ones, each about 176 bytes in the list. */
export async function fillCompanyContacts(sql: Sql, contacts: number): Promise<void> {
	const companies = companiesOf(contacts);
	await sql`truncate company_contacts restart identity`;
	await sql`
		insert into company_contacts
			(bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason)
		select 1000 + n,
		       '+1202555' || lpad((n % 10000)::text, 4, '0'),
		       case when n % 4 = 0 then array[1 + n % ${companies}::int, 1 + (n / 4) % ${companies}::int]::bigint[]
		            else array[1 + n % ${companies}::int]::bigint[] end,
		       case n % 3 when 0 then 'Alexandra Konstantinova ' when 1 then 'Мария Зайцева ' else 'Emil "Em" O’Neill ' end || n,
		       1 + n % 40,
		       n % 20 = 0,
		       case when n % 20 = 0 then 'Asks for a call back, never answers' end
		from generate_series(1, ${contacts}::int) n`;
	await sql`vacuum (analyze) company_contacts`;
}

/** Changes one of them, so that services read their cached lists again. */
export async function changeCompanyContact(sql: Sql, number: number, reason: string): Promise<void> {
	await sql`update company_contacts set perplexity_reason = ${reason} where bitrix_id = ${1000 + number}`;
}

/** The number of connections of each service. */
export async function readBackends(sql: Sql): Promise<Map<string, number>> {
	const rows = await sql<{ name: string; count: number }[]>`
		select application_name as name, count(*)::int as count from pg_stat_activity
		where application_name like '%-contacts' group by application_name`;
	return new Map(rows.map(({ name, count }) => [name, count]));
}

/**
 * Restores the same state before every measurement that writes: a row for every other chat, and no dirty pages. The last
 * requests of the previous measurement may still be writing meanwhile.
 */
export async function resetPersonalContacts(sql: Sql, { count, subscriptions }: Chats): Promise<void> {
	await sql`truncate personal_contacts, direct_subscriptions`;
	await sql`
		insert into direct_subscriptions (chat_id, started_at)
		select n * ${count / Math.max(1, subscriptions)}::int, now() - interval '1 day' from generate_series(1, ${subscriptions}::int) n`;
	await sql`
		insert into personal_contacts (chat_id, username, name, birth_date, project_id)
		select n, ${contact.username}, ${contact.name}, ${contact.birth_date}::text::date, (select min(id) from projects)
		from generate_series(2, ${count}::int, 2) n
		on conflict do nothing`;
	await sql`vacuum (analyze) personal_contacts, direct_subscriptions`;
	await sql`checkpoint`;
}

/** What PostgreSQL prints of the list: the JSON elements that the service reads, or the bare columns. */
export const copiesOfTheList = {
	elements: `
		copy (
			select ${contactJson}
			from company_contacts order by id
		) to stdout`,
	columns: `
		copy (
			select id, bitrix_id, phone, array_to_string(company_ids, ','), name, assigned_by_id,
			       case when trouble_contact then 'true' end, perplexity_reason
			from company_contacts order by id
		) to stdout`,
};
