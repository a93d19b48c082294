import type { Database } from '@contacts/common/database/database.js';

export interface PersonalContact {
	chat_id: number;
	/** Absent: keep what is stored; null: clear it. So with the other two. */
	username?: string | null;
	name?: string | null;
	/** YYYY-MM-DD. */
	birth_date?: string | null;
}

/**
 * Saves a contact in one atomic statement, unless its chat has an active direct subscription.
 *
 * The date goes through as text: the client would make a Date of it, and a time zone would shift it by a day.
 *
 * @returns whether it was saved; the row is durably committed then
 * @throws DatabaseError, DatabaseBusyError
 */
export async function savePersonalContact(
	database: Database,
	contact: PersonalContact,
	projectId: number,
): Promise<boolean> {
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
