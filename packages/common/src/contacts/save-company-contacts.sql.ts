import type { Sql } from '../database/client.js';
import {
	type ContactColumn,
	columnDefinitions,
	contactColumnNames,
	type PartialContactRow,
} from './company-contact-columns.sql.js';

export interface SaveResult {
	created: number;
	changed: number;
}

const columnsOf = (table: string) => contactColumnNames.map((name) => `${table}.${name}`).join(', ');

/** The value of each column: of an absent column the stored value, which a new contact does not have. */
const values = contactColumnNames
	.map((name) => `case when '${name}' = any (given.absent) then stored.${name} else given.${name} end`)
	.map((value, index) => (contactColumnNames[index] === 'trouble_contact' ? `coalesce(${value}, false)` : value))
	.join(', ');

/**
 * A query of a `with` clause that saves contacts by their `bitrix_id`, and has a row with `is_new` for each written contact. A
 * contact that equals the stored one is not written: its time of change and its version stay.
 *
 * @param source SQL that returns rows with `bitrix_id`, each once, the columns, and `absent`, the names of the columns that keep
 *   their stored value
 */
export const savingQuery = (source: string) => `saved as (
	insert into company_contacts as stored (bitrix_id, ${contactColumnNames.join(', ')})
	select given.bitrix_id, ${values}
	from ${source} given left join company_contacts stored on stored.bitrix_id = given.bitrix_id
	where stored.bitrix_id is null or row(${values}) is distinct from row(${columnsOf('stored')})
	order by given.bitrix_id
	on conflict (bitrix_id) do update set
		(${contactColumnNames.join(', ')}, updated_at) = row(${columnsOf('excluded')}, now())
	returning xmax = 0 as is_new
)`;

/** What a statement with `savingQuery` has written. */
export const savedCounts = `
	(select count(*) from saved where is_new)::int as created, (select count(*) from saved where not is_new)::int as changed`;

/**
 * Saves contacts, each `bitrix_id` once, in one statement. Of a contact with absent columns nobody else may write these columns
 * meanwhile: lock the table first.
 */
export async function saveCompanyContacts(sql: Sql, contacts: readonly PartialContactRow[]): Promise<SaveResult> {
	const given = contacts.map((contact) => ({ ...contact, absent: absentColumns(contact) }));
	const [result] = await sql<[SaveResult]>`
		with given as materialized (
			select * from json_to_recordset(${JSON.stringify(given)}::text::json)
				as contact (bitrix_id bigint, ${sql.unsafe(columnDefinitions)}, absent text[])
		), ${sql.unsafe(savingQuery('given'))}
		select ${sql.unsafe(savedCounts)}`;
	return result;
}

const absentColumns = (contact: PartialContactRow): ContactColumn[] =>
	contactColumnNames.filter((name) => contact[name] === undefined);

/** Deletes the tombstones of contacts that were deleted long ago. */
export async function pruneTombstones(sql: Sql): Promise<void> {
	await sql`select prune_company_contacts_tombstones()`;
}
