import type { Sql } from '@contacts/common/database/client.js';
import { isActiveSubscription } from '@contacts/common/database/direct-subscription.sql.js';

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
						to_jsonb(c) || jsonb_build_object('company_ids', array_to_string(nullif(company_ids, '{}'), ','))
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

const isOld = (sql: Sql, column: string, months: number) =>
	sql`${sql(column)} < now() - make_interval(months => ${months}::int)`;

/**
 * The chats of personal contacts that nobody has written for that long, except those of subscribed chats, which are in use, and
 * of subscriptions that ended before then.
 */
const unused = (sql: Sql, months: number) => ({
	contacts: sql`select chat_id from personal_contacts c where ${isOld(sql, 'updated_at', months)} and not exists (
		select from direct_subscriptions s where s.chat_id = c.chat_id and ${sql.unsafe(isActiveSubscription('s'))}
	)`,
	subscriptions: sql`select chat_id from direct_subscriptions where ${isOld(sql, 'ended_at', months)}`,
});

/** What `prunePersons` would delete if it were called until nothing is left. */
export async function countUnused(sql: Sql, months: number): Promise<Deleted> {
	const { contacts, subscriptions } = unused(sql, months);
	const [row] = await sql<[Deleted]>`
		select (select count(*) from (${contacts}) c)::int as personal_contacts,
		       (select count(*) from (${subscriptions}) s)::int as direct_subscriptions`;
	return row;
}

/** Deletes at most `maxPruned` rows of each table. A row that somebody else writes meanwhile is not old any more, and stays. */
export async function prunePersons(sql: Sql, months: number): Promise<Deleted> {
	const { contacts, subscriptions } = unused(sql, months);
	const [row] = await sql<[Deleted]>`
		with old_contacts as materialized (${contacts} limit ${maxPruned}),
		old_subscriptions as materialized (${subscriptions} limit ${maxPruned}),
		deleted_contacts as (
			delete from personal_contacts
			where chat_id in (select chat_id from old_contacts) and ${isOld(sql, 'updated_at', months)} returning 1
		),
		deleted_subscriptions as (
			delete from direct_subscriptions
			where chat_id in (select chat_id from old_subscriptions) and ${isOld(sql, 'ended_at', months)} returning 1
		)
		select (select count(*) from deleted_contacts)::int as personal_contacts,
		       (select count(*) from deleted_subscriptions)::int as direct_subscriptions`;
	return row;
}
