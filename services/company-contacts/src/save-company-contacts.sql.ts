import type { Sql } from '@contacts/common/database/client.js';
import {
	type CompanyContactFields,
	type ContactColumn,
	columnDefinitions,
	contactColumnNames,
} from './company-contact-columns.sql.js';

export interface SaveResult {
	created: number;
	changed: number;
}

export interface SaveOptions {
	/** Only report what would be written. */
	dryRun?: boolean;
	/** Skip new contacts that are not complete. */
	onlyWhole?: boolean;
}

export const absentColumns = (contact: CompanyContactFields): ContactColumn[] =>
	contactColumnNames.filter((name) => contact[name] === undefined);

/**
 * Queries of a `with` clause that save contacts by their `bitrix_id`. The last of them, `saved`, has a row with `is_new` for
 * each written contact. An absent column keeps its stored value; in a new contact it is null. A contact that equals the
 * stored one is not written: its time of change stays, and so does the version.
 *
 * @param source SQL that returns rows with `bitrix_id`, the columns and `absent`, the names of the absent columns; each
 *   `bitrix_id` once
 * @param groups the values of `absent` in these rows
 */
export function savingQueries(
	source: string,
	groups: readonly (readonly ContactColumn[])[],
	{ dryRun = false, onlyWhole = false }: SaveOptions = {},
): string {
	const queries = groups.map((absent, index) => {
		const names = ['bitrix_id', ...contactColumnNames.filter((name) => !absent.includes(name))];
		const columns = (table: string) => names.map((name) => `${table}.${name}`).join(', ');
		const differing = `
			select ${columns('given')}, stored.bitrix_id is null as is_new
			from ${source} given left join company_contacts stored on stored.bitrix_id = given.bitrix_id
			where given.absent @> '{${absent}}' and given.absent <@ '{${absent}}' and case
				when stored.bitrix_id is null then ${!onlyWhole || absent.length === 0}
				else row(${columns('given')}) is distinct from row(${columns('stored')}) end`;
		return dryRun
			? `saved_${index} as (${differing})`
			: `saved_${index} as (
				insert into company_contacts as stored (${names.join(', ')})
				select ${columns('differing')} from (${differing}) differing order by bitrix_id
				on conflict (bitrix_id) do update set
					(${names.join(', ')}, updated_at) = row(${columns('excluded')}, now())
				returning xmax = 0 as is_new)`;
	});
	const all = groups.map((_, index) => `select is_new from saved_${index}`);
	return [...queries, `saved as (${all.join(' union all ') || 'select true as is_new where false'})`].join(', ');
}

/** What a statement with `savingQueries` has written. */
export const savedCounts = `
	(select count(*) from saved where is_new)::int as created, (select count(*) from saved where not is_new)::int as changed`;

/** Saves contacts, each `bitrix_id` once, in one statement. */
export async function saveCompanyContacts(
	sql: Sql,
	contacts: readonly CompanyContactFields[],
	options?: SaveOptions,
): Promise<SaveResult> {
	const given = contacts.map((contact) => ({ ...contact, absent: absentColumns(contact) }));
	const groups = [...new Map(given.map(({ absent }) => [absent.join(), absent])).values()];
	const [result] = await sql<[SaveResult]>`
		with given as materialized (
			select * from json_to_recordset(${JSON.stringify(given)}::text::json)
				as contact (bitrix_id bigint, ${sql.unsafe(columnDefinitions)}, absent text[])
		), ${sql.unsafe(savingQueries('given', groups, options))}
		select ${sql.unsafe(savedCounts)}`;
	return result;
}

/** Deletes the tombstones of contacts that were deleted long ago. */
export async function pruneTombstones(sql: Sql): Promise<void> {
	await sql`select prune_company_contacts_tombstones()`;
}
