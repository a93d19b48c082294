import { type Deadline, remainingMs } from '@contacts/common/database/deadline.js';
import { DatabaseError } from '@contacts/common/database/errors.js';
import type { DatabaseState, StatePoll } from '@contacts/common/database/state-poll.js';

/** The state of the company contacts. */
export interface ContactsState {
	/** Versions can be compared only within one epoch. */
	epoch: string;
	/** Every change of a contact increases it. */
	version: number;
	/** When the mirror was last found equal to the CRM, in milliseconds since the epoch; null if never. */
	syncedAt: number | null;
}

/** What the poll of this service watches besides the keys. */
export const watchedContacts = `(
	select json_build_object(
		'epoch', epoch,
		'version', version,
		'syncedAt', (select extract(epoch from last_success_at) * 1000 from public.crm_sync_state)
	)
	from public.company_contacts_version
) as contacts`;

export const contactsOf = ({ watched }: DatabaseState): ContactsState => watched.contacts as ContactsState;

/** What a statement returns about its snapshot. */
export interface Snapshot {
	/** See `serverIdentity`. */
	server: string | null;
	/** The version of the company contacts. */
	version: number;
}

/**
 * Reads from the state that was last confirmed, or from a later one. A result that is older, or from another server, is read
 * again over a new connection.
 *
 * @param send runs the statement; with `true`, over a new connection
 * @throws DatabaseError when the second result does not match either: nothing from a standby or from a former primary is
 *   ever returned
 */
export async function readConfirmed<Result extends Snapshot>(
	poll: StatePoll,
	send: (isAgain: boolean) => Promise<Result>,
	deadline: Deadline,
): Promise<Result> {
	const before = poll.state ?? (await poll.refresh(remainingMs(deadline)));
	const first = await send(false);
	if (first.server === poll.state?.server && first.version >= contactsOf(before).version) return first;
	const now = await poll.refresh(remainingMs(deadline));
	const second = await send(true);
	if (second.server === now.server && second.version >= contactsOf(now).version) return second;
	throw new DatabaseError(new Error('the server that responds is not the primary'));
}
