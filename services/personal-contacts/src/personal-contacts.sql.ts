import type { Database } from '@contacts/common/database/database.js';

export interface PersonalContact {
	chat_id: number;
	/** Absent: keep what is stored; null: clear it. So with the other two. */
	username?: string | null;
	name?: string | null;
	/** YYYY-MM-DD. */
	birth_date?: string | null;
}

/** A contact, and the project that sends it. */
export interface SentContact {
	contact: PersonalContact;
	projectId: number;
}

/**
 * Saves a contact in one atomic statement, unless its chat has an active direct subscription.
 *
 * The date goes through as text: the client would make a Date of it, and a time zone would shift it by a day.
 *
 * @returns whether it was saved; the row is durably committed then
 * @throws DatabaseError, DatabaseBusyError
 */
export async function savePersonalContact(database: Database, { contact, projectId }: SentContact): Promise<boolean> {
	const { chat_id, username = null, name = null, birth_date = null } = contact;
	const saved = await database.query(
		(sql) => sql<{ saved: true }[]>`
			insert into personal_contacts as stored (chat_id, username, name, birth_date, project_id)
			select ${chat_id}::bigint, ${username}::text, ${name}::text, ${birth_date}::text::date, ${projectId}::bigint
			where not exists (
				select from direct_subscriptions
				where chat_id = ${chat_id}::bigint
				  and started_at <= now()
				  and (ended_at is null or ended_at > now())
			)
			on conflict (chat_id) do update set
				username = case when ${contact.username !== undefined} then excluded.username else stored.username end,
				name = case when ${contact.name !== undefined} then excluded.name else stored.name end,
				birth_date = case when ${contact.birth_date !== undefined} then excluded.birth_date else stored.birth_date end,
				project_id = excluded.project_id,
				updated_at = clock_timestamp()
			returning true as saved`,
	);
	return saved.length > 0;
}

/** Milliseconds for which a statement that carries many contacts waits for a row that somebody else holds. */
const lockTimeout = 500;

/**
 * The same for several contacts in one statement: all or none are written. Rows are locked in the order of their chats, so
 * that two such statements can't wait for each other; and a row that somebody else holds is given up soon, because all of
 * these contacts wait with it.
 *
 * @param sent each chat once
 * @returns the chats that were saved; their rows are durably committed then
 * @throws DatabaseError, DatabaseBusyError
 */
export async function savePersonalContacts(database: Database, sent: readonly SentContact[]): Promise<Set<number>> {
	const rows = JSON.stringify(
		sent.map(({ contact: { chat_id, username, name, birth_date }, projectId }) => ({
			chat_id,
			username,
			name,
			birth_date,
			project_id: projectId,
		})),
	);
	const keeping = (field: 'username' | 'name' | 'birth_date') =>
		`{${sent.flatMap(({ contact }) => (contact[field] === undefined ? [contact.chat_id] : [])).join()}}`;
	const saved = await database.query(
		(sql) => sql<{ chat_id: number }[]>`
			with limits as materialized (select set_config('lock_timeout', ${String(lockTimeout)}, true) as lock_timeout)
			insert into personal_contacts as stored (chat_id, username, name, birth_date, project_id)
			select sent.chat_id, sent.username, sent.name, sent.birth_date, sent.project_id
			from limits, json_to_recordset(${rows}::text::json)
				as sent (chat_id bigint, username text, name text, birth_date date, project_id bigint)
			where limits.lock_timeout is not null and not exists (
				select from direct_subscriptions subscription
				where subscription.chat_id = sent.chat_id
				  and subscription.started_at <= now()
				  and (subscription.ended_at is null or subscription.ended_at > now())
			)
			order by sent.chat_id
			on conflict (chat_id) do update set
				username = case when stored.chat_id = any (${keeping('username')}::text::bigint[])
					then stored.username else excluded.username end,
				name = case when stored.chat_id = any (${keeping('name')}::text::bigint[])
					then stored.name else excluded.name end,
				birth_date = case when stored.chat_id = any (${keeping('birth_date')}::text::bigint[])
					then stored.birth_date else excluded.birth_date end,
				project_id = excluded.project_id,
				updated_at = clock_timestamp()
			returning chat_id::float8 as chat_id`,
	);
	return new Set(saved.map(({ chat_id }) => chat_id));
}
