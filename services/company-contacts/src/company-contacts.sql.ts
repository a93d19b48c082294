import type { Sql } from '@contacts/common/database/client.js';
import type { Database } from '@contacts/common/database/database.js';
import { contactBytes, contactJson } from './company-contact-columns.js';

/** A list that fits, as the JSON of its elements, separated by commas. */
export interface ListedContacts {
	count: number;
	elements: Buffer;
}

/** What a list that is read in batches begins with. */
export interface ListHead {
	count: number;
	/** Another one whenever the list is another one. */
	version: string;
}

/** Bytes that an element of the list takes beside its texts and the IDs of its companies, at the most. */
const elementBytes = 250;
/** Contacts in a batch: some 180 KB. */
const batchSize = 1000;

/** A decimal ID, or nothing for all. */
const linkedTo = (sql: Sql, companyId?: string) =>
	companyId === undefined ? sql`` : sql`where company_ids @> array[${companyId}::bigint]`;

const element = (sql: Sql) => sql.unsafe(contactJson);

/**
 * All contacts, or those of one company, ordered by id, as JSON.
 *
 * @param companyId decimal digits, at most 2^63 − 1
 * @param maxBytes how large the list may be
 * @returns undefined when it may be larger
 * @throws DatabaseError, DatabaseBusyError
 */
export async function readCompanyContacts(
	database: Database,
	companyId: string | undefined,
	maxBytes: number,
): Promise<ListedContacts | undefined> {
	const rows = await database.query((sql) =>
		sql`
			with listed as materialized (
				select * from company_contacts
				${linkedTo(sql, companyId)}
				-- More than fit need not be looked at.
				limit ${Math.floor(maxBytes / elementBytes) + 1}::bigint
			), size as (
				select count(*)::int as count, coalesce(sum(${elementBytes}::float8 + ${sql.unsafe(contactBytes)}), 0) <= ${maxBytes}::float8 as fits
				from listed
			)
			select size.count, size.fits, coalesce((
				select string_agg(${element(sql)}, ',' order by id) from listed where size.fits
			), '') as elements
			from size`.raw(),
	);
	const [count, fits, elements] = rows[0] as [Buffer, Buffer, Buffer];
	return String(fits) === 't' ? { count: Number(count), elements } : undefined;
}

/**
 * The same list in batches, all of it of one moment.
 *
 * The version is made of the IDs of the rows, of the transactions that wrote them and of the time at which they did: rows
 * that were restored into another database may have got the IDs of the same transactions there.
 *
 * @param reader for whom: each has a share of the lists that are read at once
 * @param onBatch gets the JSON of some elements, separated by commas, and resolves whether to go on; it must not reject.
 * Without contacts it is called once, with nothing.
 * @throws DatabaseError, DatabaseBusyError
 */
export async function readCompanyContactsInBatches(
	database: Database,
	companyId: string | undefined,
	reader: string,
	onBatch: (elements: Buffer[], head: ListHead) => Promise<boolean>,
): Promise<void> {
	let head: ListHead | undefined;
	await database.readInBatches(
		(sql) => sql`
			select ${element(sql)} as element, (
				select count(*) || ' ' || to_hex(coalesce(bit_xor(
					hashtextextended(xmin::text, hashfloat8extended(date_part('epoch', updated_at), id))), 0))
				from company_contacts ${linkedTo(sql, companyId)}
			) as head
			from company_contacts ${linkedTo(sql, companyId)}
			order by id`,
		batchSize,
		async (rows) => {
			if (head === undefined) {
				const [count, version = ''] = String(rows[0]?.[1]).split(' ');
				head = { count: Number(count), version };
			}
			return onBatch(
				rows.map(([element]) => element as Buffer),
				head,
			);
		},
		reader,
	);
	if (head === undefined) await onBatch([], { count: 0, version: '0' });
}
