import { isActiveSubscription } from '@contacts/common/contacts/direct-subscription.sql.js';
import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import { isOpen, lockTimeoutUntil, mayReplace } from '@contacts/common/database/expiry.sql.js';

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
}

/** `skipped`: the chat has an active direct subscription, and nothing was written. */
export type Outcome = 'saved' | 'skipped';

/** How long a batch may write, in milliseconds. All of its contacts wait with it. */
const batchTimeoutMs = 500;

/**
 * Saves the contacts of `$1`. In the chats of `$2`, `$3` and `$4` the stored username, name and birth date stay. `$5` is
 * `Expiry.sentAtLeast`, `$6` until when it may write. One text: the client would take tens of
 * microseconds to put its parts together.
 */
const saving = `
	with sent as materialized (
		-- With an EXISTS the planner would read all subscriptions into a hash for each statement.
		select contact.*, coalesce((
			select true from direct_subscriptions subscription
			where subscription.chat_id = contact.chat_id and ${isActiveSubscription('subscription')}
		), false) as is_subscribed
		from json_to_recordset($1::text::json)
			as contact (chat_id bigint, username text, name text, birth_date date, project_id bigint)
		where (select ${lockTimeoutUntil('$6')}) is not null
		order by chat_id
	),
	written as (
		insert into personal_contacts as stored (chat_id, username, name, birth_date, project_id)
		select chat_id, username, name, birth_date, project_id from sent
		where not is_subscribed and ${isOpen('$6')}
		on conflict (chat_id) do update set
			username = case when stored.chat_id = any ($2::bigint[]) then stored.username else excluded.username end,
			name = case when stored.chat_id = any ($3::bigint[]) then stored.name else excluded.name end,
			birth_date = case when stored.chat_id = any ($4::bigint[])
				then stored.birth_date else excluded.birth_date end,
			project_id = excluded.project_id,
			updated_at = clock_timestamp()
		where ${isOpen('$6')} and ${mayReplace('stored.updated_at', '$5')}
		returning chat_id
	)
	-- Not as float8: a server may be set to print 15 digits of one.
	select to_json(chat_id) as chat_id,
		-- With nothing in its log a commit does not wait for the standbys: a former primary could say what no longer holds.
		case when is_subscribed then case when (select pg_logical_emit_message(true, '', '')) is not null then 'skipped' end
			when written.chat_id is not null then 'saved' end as outcome,
		(extract(epoch from clock_timestamp()) * 1000)::float8 as clock
	from sent left join written using (chat_id)`;

/**
 * Saves contacts in one atomic statement, except those whose chats have an active direct subscription.
 *
 * - A contact is written only before the statement expires, and never over a row that may have been written after the statement
 *   was sent. Both are checked while the row is locked, so a delayed older statement cannot overwrite a newer one.
 * - Rows are locked in the order of their chats, so that two such statements cannot deadlock.
 *
 * @param sent each chat once
 * @param deadline that of the callers, or of the one with the least time left
 * @param mode what of a batch was not done is for the caller to send again, each contact alone
 * @returns the outcome of each chat; the saved rows are durably committed. A chat of a batch without an outcome was not
 *   written: the statement expired before its deadline, or its row may be newer.
 * @throws what `Database.write` throws: what was not saved by then is never saved later
 */
export async function savePersonalContacts(
	database: Database,
	sent: readonly SentContact[],
	deadline: Deadline,
	mode: 'batch' | 'alone',
): Promise<Map<number, Outcome>> {
	const contacts = JSON.stringify(
		sent.map(({ contact: { chat_id, username, name, birth_date }, projectId }) => ({
			chat_id,
			username,
			name,
			birth_date,
			project_id: projectId,
		})),
	);
	/** The chats that keep their stored value of this field, as an array of PostgreSQL. */
	const without = (field: 'username' | 'name' | 'birth_date') =>
		`{${sent.flatMap(({ contact }) => (contact[field] === undefined ? [contact.chat_id] : [])).join()}}`;
	const kept = [without('username'), without('name'), without('birth_date')];

	const rows = await database.write(
		(sql, { sentAtLeast, expires }) => {
			const until = mode === 'batch' ? Math.min(expires, sentAtLeast + batchTimeoutMs) : expires;
			const parameters = [contacts, ...kept, sentAtLeast, until];
			return sql.unsafe<{ chat_id: number; outcome: Outcome | null; clock: number }[]>(saving, parameters, {
				prepare: true,
			});
		},
		{ deadline, repeatsUndone: mode === 'alone' },
	);
	return new Map(rows.flatMap(({ chat_id, outcome }) => (outcome === null ? [] : [[chat_id, outcome]])));
}
