import { contactBytes, contactJson } from '@contacts/common/contacts/company-contact-columns.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import { serverIdentity } from '@contacts/common/database/state-poll.sql.js';
import type { Snapshot } from './contacts-state.sql.js';

/** The state of the table when a list is read. */
export interface ListHead extends Snapshot {
	/** Versions can be compared only within one epoch. */
	epoch: string;
	/** When the mirror was last found equal to the CRM, in milliseconds since the epoch; null if never. */
	syncedAt: number | null;
}

/** What comes before the contacts of a list that is read in batches. */
interface StreamStart extends ListHead {
	count: number;
}

/** Maximum size of an element without its unlimited columns. */
const maxElementBytes = 250;
/** A batch is about 180 KB. */
const contactsPerBatch = 1000;

type Fragment = ReturnType<Sql>;

/** The WHERE clause of one company; empty for all contacts. */
const linkedTo = (sql: Sql, companyId?: string) =>
	companyId === undefined ? sql`` : sql`where company_ids @> array[${companyId}::bigint]`;

const element = (sql: Sql) => sql.unsafe(contactJson);

const head = (sql: Sql, count: Fragment = sql`null`) => sql`(
	select json_build_object(
		'server', ${sql.unsafe(serverIdentity)},
		'epoch', epoch,
		'version', version,
		'syncedAt', (select extract(epoch from last_success_at) * 1000 from crm_sync_state),
		'count', ${count}
	)
	from company_contacts_version)`;

/**
 * Reads all contacts, or those of one company, ordered by id.
 *
 * @param companyId decimal digits, at most 2^63 − 1
 * @param options see `Database.read`
 * @returns the body as it is sent; undefined when it may be larger than `maxBytes`
 * @throws what `Database.read` throws
 */
export async function readCompanyContacts(
	database: Database,
	companyId: string | undefined,
	maxBytes: number,
	options: { deadline: Deadline; isOnNew: boolean },
): Promise<ListHead & { body: Buffer | undefined }> {
	const rows = await database.read(
		(sql) =>
			sql`
			with listed as materialized (
				select * from company_contacts
				${linkedTo(sql, companyId)}
				-- Stop after more contacts than can fit.
				limit ${Math.floor(maxBytes / maxElementBytes) + 1}::bigint
			), size as (
				select count(*)::int as count, coalesce(sum(${maxElementBytes}::float8 + ${sql.unsafe(contactBytes)}), 0) <= ${maxBytes}::float8 as fits
				from listed
			)
			select ${head(sql)} as head, case when fits then format('{"count":%s,"data":[%s]}', count, (
				select string_agg(${element(sql)}, ',' order by id) from listed
			)) end as body
			from size`.raw(),
		options,
	);
	const [read, body] = rows[0] as [Buffer, Buffer | null];
	return { ...(JSON.parse(String(read)) as ListHead), body: body ?? undefined };
}

/** Some elements of a list, as JSON. */
export interface ListBatch {
	/** The same in each batch. */
	start: StreamStart;
	elements: Buffer[];
}

/**
 * Reads the same list in batches, all from one snapshot. See `Database.readInBatches`.
 *
 * @param options.reader the client that reads: each has a share of the concurrent list reads
 * @param options.deadline the deadline of the first batch
 * @throws DatabaseError, DatabaseBusyError
 */
export async function* readCompanyContactsInBatches(
	database: Database,
	companyId: string | undefined,
	options: { reader: string; deadline: Deadline; isOnNew: boolean },
): AsyncGenerator<ListBatch, void> {
	let start: StreamStart | undefined;
	const batches = database.readInBatches(
		(sql) => sql`
			-- PostgreSQL executes the parts in this order, and the second one by its index.
			select null as element, ${head(sql, sql`(select count(*) from company_contacts ${linkedTo(sql, companyId)})`)} as start
			union all
			(select ${element(sql)}, null from company_contacts ${linkedTo(sql, companyId)} order by id)`,
		contactsPerBatch,
		options,
	);
	for await (const rows of batches) {
		start ??= JSON.parse(String(rows[0]?.[1])) as StreamStart;
		yield { start, elements: rows.flatMap(([element]) => element ?? []) };
	}
}
