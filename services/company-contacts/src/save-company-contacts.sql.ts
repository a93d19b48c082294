import type { Sql } from '@contacts/common/database/client.js';

/** A contact as it comes from the CRM or from a file. */
export interface CompanyContact {
	bitrix_id: number;
	/** E.164 */
	phone: string | null;
	/** Decimal digits, each at most 2^63 − 1; null for none. */
	company_ids: string[] | null;
	name: string | null;
	assigned_by_id: number | null;
	trouble_contact: boolean;
	perplexity_reason: string | null;
}

export interface SaveResult {
	created: number;
	changed: number;
}

/** A contact of which some fields are given. */
export type CompanyContactFields = Pick<CompanyContact, 'bitrix_id'> & Partial<CompanyContact>;

const fields = ['phone', 'company_ids', 'name', 'assigned_by_id', 'trouble_contact', 'perplexity_reason'] as const;
type Field = (typeof fields)[number];

/**
 * Saves contacts by their `bitrix_id`. A field that is absent keeps what is stored; of a new contact it is null. What is stored
 * already as it is given is not written at all: neither its time of change nor any listener hears of it.
 *
 * @param contacts each `bitrix_id` once
 */
export async function saveCompanyContacts(sql: Sql, contacts: readonly CompanyContactFields[]): Promise<SaveResult> {
	const groups = new Map<string, { given: Field[]; contacts: CompanyContactFields[] }>();
	for (const contact of contacts) {
		const given = fields.filter((field) => contact[field] !== undefined);
		const group = groups.get(given.join());
		if (group === undefined) groups.set(given.join(), { given, contacts: [contact] });
		else group.contacts.push(contact);
	}
	const result: SaveResult = { created: 0, changed: 0 };
	for (const group of groups.values()) {
		const { created, changed } = await saveFields(sql, group.contacts, group.given);
		result.created += created;
		result.changed += changed;
	}
	return result;
}

/** One statement for contacts that have the same fields. */
async function saveFields(
	sql: Sql,
	contacts: readonly CompanyContactFields[],
	given: readonly Field[],
): Promise<SaveResult> {
	const names = ['bitrix_id', ...given];
	const columns = sql.unsafe(names.join(', '));
	const columnsOf = (table: string) => sql.unsafe(names.map((name) => `${table}.${name}`).join(', '));
	const [result] = await sql<[SaveResult]>`
		with given as (
			select * from json_to_recordset(${JSON.stringify(contacts)}::text::json) as contact (
				bitrix_id bigint, phone text, company_ids bigint[], name text,
				assigned_by_id bigint, trouble_contact boolean, perplexity_reason text
			)
		), saved as (
			insert into company_contacts as stored (${columns})
			select ${columns}
			from given
			where not exists (
				select from company_contacts same
				where same.bitrix_id = given.bitrix_id
				  and row(${columnsOf('same')}) is not distinct from row(${columnsOf('given')})
			)
			order by bitrix_id
			on conflict (bitrix_id) do update set
				(${columns}, updated_at) = row(${columnsOf('excluded')}, now())
			returning xmax = 0 as created
		)
		select count(*) filter (where created)::int as created, count(*) filter (where not created)::int as changed from saved`;
	return result;
}
