import type { PendingStatement, Sql } from '@contacts/common/database/client.js';
import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import { isActiveSubscription } from '@contacts/common/database/direct-subscription.sql.js';
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

interface SaveOptions {
	/** The deadline of the callers, or of the one with the least time left. */
	deadline: Deadline;
	/** Maximum wait for a locked row. Default: as long as the statement may write. */
	lockTimeoutMs?: number;
}

/** The contacts in neither list have expired. */
interface Outcome {
	saved: number[];
	/** They have an active direct subscription. */
	skipped: number[];
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
 * @throws what `Database.write` throws with a deadline: a contact not saved by then is never saved later
 */
export async function savePersonalContacts(
	database: Database,
	sent: readonly SentContact[],
	{ deadline, lockTimeoutMs }: SaveOptions,
): Promise<Set<number>> {
	const saved = new Set<number>();
	for (let rest = sent; rest.length > 0; ) {
		const due = rest;
		const [outcome] = await database.write((sql, expiry) => upsert(sql, due, expiry, lockTimeoutMs), {
			deadline,
			retryRefused: lockTimeoutMs === undefined,
		});
		for (const chat of outcome.saved) saved.add(chat);
		if (outcome.saved.length + outcome.skipped.length === due.length) break;
		const skipped = new Set(outcome.skipped);
		rest = due.filter(({ contact: { chat_id: chat } }) => !saved.has(chat) && !skipped.has(chat));
	}
	return saved;
}

function upsert(
	sql: Sql,
	sent: readonly SentContact[],
	{ sentAtLeast, expires }: Expiry,
	lockTimeoutMs = expires - sentAtLeast,
): PendingStatement<[Outcome]> {
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
	const isSentAgain = sent.some(({ firstSent }) => firstSent !== undefined);
	for (const each of sent) each.firstSent ??= sentAtLeast - clockMarginMs;
	const absent = (field: 'username' | 'name' | 'birth_date') =>
		`{${sent.flatMap(({ contact }) => (contact[field] === undefined ? [contact.chat_id] : [])).join()}}`;
	const [keepUsername, keepName, keepBirthDate] = [absent('username'), absent('name'), absent('birth_date')];
	// Only a statement with a contact that is sent again pays for this look at the rows. A scalar subquery, because an EXISTS
	// could become a join with the whole table.
	const again = isSentAgain && {
		writtenBefore: sql`,
			written_before as materialized (
				select chat_id from sent
				where first_sent is not null and subscribed and clock_timestamp() < to_timestamp(${expires}::float8 / 1000)
				  and (
					select true from personal_contacts stored
					where stored.chat_id = sent.chat_id
					  and stored.updated_at >= to_timestamp(sent.first_sent / 1000)
					  and stored.project_id = sent.project_id
					  and (sent.chat_id = any (${keepUsername}::bigint[]) or stored.username is not distinct from sent.username)
					  and (sent.chat_id = any (${keepName}::bigint[]) or stored.name is not distinct from sent.name)
					  and (sent.chat_id = any (${keepBirthDate}::bigint[]) or stored.birth_date is not distinct from sent.birth_date)
				  )
			)`,
		isSaved: sql`union all select chat_id from written_before`,
		isNotSkipped: sql`and chat_id not in (select chat_id from written_before)`,
	};
	const nothing = sql``;
	return sql<[Outcome]>`
		with sent as materialized (
			-- With an EXISTS the planner would read the whole table into a hash for each statement.
			select contact.*, coalesce((
				select true from direct_subscriptions subscription
				where subscription.chat_id = contact.chat_id and ${sql.unsafe(isActiveSubscription('subscription'))}
			), false) as subscribed
			from (select set_config('lock_timeout', ${String(Math.ceil(lockTimeoutMs))}, true) as lock_timeout) setting,
				json_to_recordset(${rows}::text::json) as contact (
					chat_id bigint, username text, name text, birth_date date, project_id bigint, first_sent float8
				)
			where setting.lock_timeout is not null
		),
		written as (
			insert into personal_contacts as stored (chat_id, username, name, birth_date, project_id)
			select chat_id, username, name, birth_date, project_id
			from sent
			where not subscribed and clock_timestamp() < to_timestamp(${expires}::float8 / 1000)
			order by chat_id
			on conflict (chat_id) do update set
				username = case when stored.chat_id = any (${keepUsername}::bigint[]) then stored.username else excluded.username end,
				name = case when stored.chat_id = any (${keepName}::bigint[]) then stored.name else excluded.name end,
				birth_date = case when stored.chat_id = any (${keepBirthDate}::bigint[])
					then stored.birth_date else excluded.birth_date end,
				project_id = excluded.project_id,
				updated_at = clock_timestamp()
			where clock_timestamp() < to_timestamp(${expires}::float8 / 1000)
			  and (stored.updated_at <= to_timestamp(${sentAtLeast}::float8 / 1000) or stored.updated_at > clock_timestamp())
			returning chat_id
		)${again ? again.writtenBefore : nothing}
		select
			to_json(array(
				select chat_id from written
				${again ? again.isSaved : nothing}
			)) as saved,
			to_json(array(
				select chat_id from sent
				where subscribed and clock_timestamp() < to_timestamp(${expires}::float8 / 1000)
				${again ? again.isNotSkipped : nothing}
			)) as skipped,
			(extract(epoch from clock_timestamp()) * 1000)::float8 as clock`;
}
