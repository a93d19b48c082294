import type { Turn } from '@contacts/common/database/admission.js';
import type { PendingStatement, Sql } from '@contacts/common/database/client.js';
import type { Database } from '@contacts/common/database/database.js';
import { clockMarginMs, type Expiry } from '@contacts/common/database/expiring-write.js';

export interface PersonalContact {
	chat_id: number;
	/** Absent: keep the stored value; null: clear it. The same applies to the next two. */
	username?: string | null;
	name?: string | null;
	/** YYYY-MM-DD. */
	birth_date?: string | null;
}

/** A contact and the project that sends it. */
export interface SentContact {
	contact: PersonalContact;
	projectId: number;
	/** When it was first sent to the database, by the database's clock. `savePersonalContacts` sets it. */
	firstSent?: number;
}

export interface SaveOptions {
	/** The turn of the callers, or of the one with the least time left. */
	turn: Turn;
	/** Maximum wait for a locked row. Default: as long as the statement may write. */
	lockTimeoutMs?: number;
}

interface SavedRow {
	chat_id: number;
	outcome: 'saved' | 'skipped' | 'expired';
	clock: number;
}

/**
 * Saves contacts in one atomic statement, except those whose chats have an active direct subscription. All or none are
 * written, unless the statement expires. An expired contact is not written, and is sent again.
 *
 * - A contact is written only while it is not expired, and never over a row that was written after the contact was sent. The
 *   statement checks both after it has locked the row, so a delayed older statement cannot overwrite a newer one. A row with a
 *   time in the future only means that the server's clock was set back.
 * - Rows are locked in the order of their chats, so that two such statements cannot deadlock.
 * - A contact that is sent again may have been written the first time, though no response arrived. If a subscription has begun
 *   since, the contact counts as saved when the row has exactly what was sent.
 * - Dates are passed as text: the client would convert them to a Date, and a time zone would shift them by a day.
 *
 * @param sent each chat once
 * @returns the saved chats; their rows are durably committed
 * @throws what `Database.write` throws with a turn: a contact not saved by then is never saved later
 */
export async function savePersonalContacts(
	database: Database,
	sent: readonly SentContact[],
	{ turn, lockTimeoutMs }: SaveOptions,
): Promise<Set<number>> {
	const saved = new Set<number>();
	for (let rest = sent; rest.length > 0; ) {
		const due = rest;
		const rows = await database.write((sql, expiry) => upsert(sql, due, expiry, lockTimeoutMs), {
			turn,
			retryRefused: lockTimeoutMs === undefined,
		});
		for (const { chat_id, outcome } of rows) if (outcome === 'saved') saved.add(chat_id);
		const expired = new Set(rows.flatMap(({ chat_id, outcome }) => (outcome === 'expired' ? [chat_id] : [])));
		rest = rest.filter(({ contact }) => expired.has(contact.chat_id));
	}
	return saved;
}

function upsert(
	sql: Sql,
	sent: readonly SentContact[],
	{ sentAtLeast, expires }: Expiry,
	lockTimeoutMs = expires - sentAtLeast,
): PendingStatement<SavedRow[]> {
	const rows = JSON.stringify(
		sent.map(({ contact: { chat_id, username, name, birth_date }, projectId, firstSent }) => ({
			chat_id,
			username,
			name,
			birth_date,
			project_id: projectId,
			first_sent: firstSent,
		})),
	);
	for (const each of sent) each.firstSent ??= sentAtLeast - clockMarginMs;
	const keeping = (field: 'username' | 'name' | 'birth_date') =>
		`{${sent.flatMap(({ contact }) => (contact[field] === undefined ? [contact.chat_id] : [])).join()}}`;
	return sql<SavedRow[]>`
		with terms as materialized (
			select to_timestamp(${expires}::float8 / 1000) as expires,
				to_timestamp(${sentAtLeast}::float8 / 1000) as sent_at_least,
				${keeping('username')}::text::bigint[] as keep_username,
				${keeping('name')}::text::bigint[] as keep_name,
				${keeping('birth_date')}::text::bigint[] as keep_birth_date,
				set_config('lock_timeout', ${String(Math.ceil(lockTimeoutMs))}, true) as lock_timeout
		),
		sent as materialized (
			-- With an EXISTS the planner would read the whole table into a hash for each statement.
			select contact.*, coalesce((
				select true from direct_subscriptions subscription
				where subscription.chat_id = contact.chat_id
				  and subscription.started_at <= now()
				  and (subscription.ended_at is null or subscription.ended_at > now())
				limit 1
			), false) as subscribed
			from terms, json_to_recordset(${rows}::text::json) as contact (
				chat_id bigint, username text, name text, birth_date date, project_id bigint, first_sent float8
			)
			where terms.lock_timeout is not null
		),
		written as (
			insert into personal_contacts as stored (chat_id, username, name, birth_date, project_id)
			select chat_id, username, name, birth_date, project_id
			from sent
			where not subscribed and clock_timestamp() < (select expires from terms)
			order by chat_id
			on conflict (chat_id) do update set
				username = case when stored.chat_id = any ((select keep_username from terms)::bigint[])
					then stored.username else excluded.username end,
				name = case when stored.chat_id = any ((select keep_name from terms)::bigint[])
					then stored.name else excluded.name end,
				birth_date = case when stored.chat_id = any ((select keep_birth_date from terms)::bigint[])
					then stored.birth_date else excluded.birth_date end,
				project_id = excluded.project_id,
				updated_at = clock_timestamp()
			where clock_timestamp() < (select expires from terms)
			  and (stored.updated_at <= (select sent_at_least from terms) or stored.updated_at > clock_timestamp())
			returning chat_id
		)
		select sent.chat_id::float8 as chat_id,
			case
				when written.chat_id is not null then 'saved'
				when clock_timestamp() >= terms.expires or not sent.subscribed then 'expired'
				when exists (
					select from personal_contacts stored
					where stored.chat_id = sent.chat_id
					  and stored.updated_at >= to_timestamp(sent.first_sent / 1000)
					  and stored.project_id = sent.project_id
					  and (sent.chat_id = any (terms.keep_username) or stored.username is not distinct from sent.username)
					  and (sent.chat_id = any (terms.keep_name) or stored.name is not distinct from sent.name)
					  and (sent.chat_id = any (terms.keep_birth_date) or stored.birth_date is not distinct from sent.birth_date)
				) then 'saved'
				else 'skipped'
			end as outcome,
			(extract(epoch from clock_timestamp()) * 1000)::float8 as clock
		from terms, sent left join written on written.chat_id = sent.chat_id`;
}
