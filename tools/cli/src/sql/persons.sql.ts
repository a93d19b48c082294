import { isActiveSubscription } from '@contacts/common/contacts/direct-subscription.sql.js';
import type { Sql } from '@contacts/common/database/client.js';

/** Identifies a person by one of these: a chat with the bot, or a contact of the CRM. */
export interface PersonQuery {
	chat?: number;
	phone?: string;
	bitrix?: number;
}

/** Everything that is stored about a person, by table: each row with all of its columns. */
interface StoredPerson {
	personal_contacts: Record<string, unknown>[];
	direct_subscriptions: Record<string, unknown>[];
	company_contacts: Record<string, unknown>[];
}

/** One statement, for a consistent snapshot. */
export async function readPerson(sql: Sql, { chat, phone, bitrix }: PersonQuery): Promise<StoredPerson> {
	const isChat = sql`chat_id = ${chat ?? null}::float8::bigint`;
	const [row] = await sql<[{ person: StoredPerson }]>`
		select json_build_object(
			'personal_contacts', (
				select coalesce(json_agg(to_jsonb(c) - 'project_id' || jsonb_build_object('project', p.code)), '[]')
				from personal_contacts c join projects p on p.id = c.project_id where ${isChat}
			),
			'direct_subscriptions', (
				select coalesce(json_agg(to_jsonb(s)), '[]') from direct_subscriptions s where ${isChat}
			),
			'company_contacts', (
				select coalesce(
					json_agg(
						-- A JSON number would lose digits above 2^53.
						to_jsonb(c) || jsonb_build_object('company_ids', array_to_string(company_ids, ','))
						order by c.id
					),
					'[]'
				) from company_contacts c
				where phone = ${phone ?? null}::text or bitrix_id = ${bitrix ?? null}::float8::bigint
			)
		) as person`;
	return row.person;
}

/** The number of deleted rows of each table. */
export interface Deleted {
	personal_contacts: number;
	direct_subscriptions: number;
}

/** Deletes what is stored about a chat. */
export async function eraseChat(sql: Sql, chatId: number): Promise<Deleted> {
	const [row] = await sql<[Deleted]>`
		with contacts as (delete from personal_contacts where chat_id = ${chatId}::float8::bigint returning 1),
		     subscriptions as (delete from direct_subscriptions where chat_id = ${chatId}::float8::bigint returning 1)
		select (select count(*) from contacts)::int as personal_contacts,
		       (select count(*) from subscriptions)::int as direct_subscriptions`;
	return row;
}

/** @returns the number of deleted company contacts; null: a CRM is mirrored, where they must be deleted, and none was here */
export async function eraseCompanyContacts(sql: Sql, bitrixIds: readonly unknown[]): Promise<number | null> {
	const [row] = await sql<[{ deleted: number | null }]>`
		select erase_company_contacts(
			array(select value::bigint from json_array_elements_text(${JSON.stringify(bitrixIds)}::text::json))
		) as deleted`;
	return row.deleted;
}

/** The maximum number of rows of each table that one statement deletes. */
const maxPruned = 5000;

/** Before the first chat. */
const beforeAll = -(2 ** 53);

const isOld = (sql: Sql, column: string, months: number) =>
	sql`${sql(column)} < now() - make_interval(months => ${months}::int)`;

/**
 * What nobody needs any more: personal contacts that nobody has written for that long, except those of subscribed chats, which are in
 * use, and subscriptions that ended before then. Each as the condition of a row that is called `stored`.
 */
const unused = {
	personal_contacts: (sql: Sql, months: number) => sql`${isOld(sql, 'stored.updated_at', months)} and not exists (
		select from direct_subscriptions s where s.chat_id = stored.chat_id and ${sql.unsafe(isActiveSubscription('s'))}
	)`,
	direct_subscriptions: (sql: Sql, months: number) => isOld(sql, 'stored.ended_at', months),
};

/** What `prunePersons` would delete. */
export async function countUnused(sql: Sql, months: number): Promise<Deleted> {
	const count = (table: keyof Deleted) =>
		sql`(select count(*) from ${sql(table)} stored where ${unused[table](sql, months)})::int as ${sql(table)}`;
	const [row] = await sql<[Deleted]>`select ${count('personal_contacts')}, ${count('direct_subscriptions')}`;
	return row;
}

/**
 * Deletes what nobody needs from a table, at most `maxPruned` rows. It follows the key, so that it looks at each row once: an index on
 * `updated_at` would make every upsert dearer. A row that somebody else writes meanwhile is not old any more, and stays.
 *
 * @param after the chat up to which an earlier call has come
 * @returns the number of deleted rows, and the chat up to which it has come; null: to the end
 */
export async function prunePersons(
	sql: Sql,
	table: keyof Deleted,
	months: number,
	after = beforeAll,
): Promise<{ deleted: number; last: number | null }> {
	const condition = unused[table](sql, months);
	const [row] = await sql<[{ deleted: number; last: number | null }]>`
		with page as materialized (
			select chat_id from ${sql(table)} stored
			where chat_id > ${after}::float8::bigint and ${condition} order by chat_id limit ${maxPruned}
		),
		deleted as (
			delete from ${sql(table)} stored using page where stored.chat_id = page.chat_id and ${condition} returning 1
		)
		select (select count(*) from deleted)::int as deleted,
		       to_json((select case when count(*) = ${maxPruned} then max(chat_id) end from page)) as last`;
	return row;
}
