import { contactJson } from '@contacts/common/contacts/company-contact-columns.sql.js';
import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import { serverIdentity } from '@contacts/common/database/state-poll.sql.js';
import { maxPageLimit } from '@contacts/common/schemas/fields.js';
import type { Snapshot } from '../contacts-state.sql.js';
import type { Cursor, Position } from './feed-cursor.js';

/** The last change of a contact, with the contact's ID. */
interface Change extends Position {
	/** An element of the response, as JSON. */
	json: string;
}

/** Changes and the state of the table, all from one snapshot. */
export interface ChangesPage extends Snapshot {
	epoch: string;
	/** Tombstones up to this version may be deleted. */
	pruned: number;
	/** In the order of the changes. Contains one more than `maxPageLimit` if there are that many. */
	changes: Change[];
}

interface Row extends Omit<ChangesPage, 'changes'>, Pick<Change, 'json'> {
	change_version: number | null;
	change_id: number;
}

/**
 * Reads what has changed after a cursor, or everything. Each contact appears once, in its current state.
 *
 * @param options see `Database.read`
 * @throws what `Database.read` throws
 */
export async function readChanges(
	database: Database,
	cursor: Cursor | undefined,
	options: { deadline: Deadline; isOnNew: boolean },
): Promise<ChangesPage> {
	// A reader without a cursor starts now: it needs no tombstones.
	const { version, id, began } = cursor ?? { version: 0, id: 0, began: null };
	const rows = await database.read(
		(sql) => sql<Row[]>`
			with page as materialized (
				select version, id as contact_id, bitrix_id as deleted_bitrix_id
				from company_contacts_changes
				where (version, id) > (${version}::bigint, ${id}::bigint)
				  and (bitrix_id is null
				    or version > coalesce(${began}::bigint, (select version from company_contacts_version)))
				order by version, id
				-- No parameter: the planner has to know how few they are.
				limit ${sql.unsafe(String(maxPageLimit + 1))}
			)
			select head.epoch, head.version::float8 as version, head.pruned_version::float8 as pruned,
			       ${sql.unsafe(serverIdentity)} as server,
			       page.version::float8 as change_version, contact_id::float8 as change_id,
			       case when deleted_bitrix_id is null
			         then format('{"deleted":false,"contact":%s}', ${sql.unsafe(contactJson)})
			         else format('{"deleted":true,"contact":{"id":%s,"bitrix_id":%s}}', contact_id, deleted_bitrix_id)
			       end as json
			-- The planner would expect many rows of this table, and compile the statement.
			from (select * from company_contacts_version limit 1) head
			left join (page left join company_contacts on id = contact_id) on true
			order by page.version, contact_id`,
		options,
	);
	const [head] = rows;
	if (head === undefined) throw new Error('company_contacts_version has no row');
	const changes = rows.flatMap(({ change_version, change_id, json }) =>
		change_version === null ? [] : [{ version: change_version, id: change_id, json }],
	);
	const { server, epoch, version: last, pruned } = head;
	return { server, epoch, version: last, pruned, changes };
}
