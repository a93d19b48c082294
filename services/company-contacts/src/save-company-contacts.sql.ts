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

/**
 * Saves contacts by their `bitrix_id` in one statement. What is stored already as it is given is not written at all: neither
 * its time of change nor any listener hears of it.
 *
 * @param contacts each `bitrix_id` once
 */
export async function saveCompanyContacts(sql: Sql, contacts: readonly CompanyContact[]): Promise<SaveResult> {
	const [result] = await sql<[SaveResult]>`
		with given as (
			select * from json_to_recordset(${JSON.stringify(contacts)}::text::json) as contact (
				bitrix_id bigint, phone text, company_ids bigint[], name text,
				assigned_by_id bigint, trouble_contact boolean, perplexity_reason text
			)
		), saved as (
			insert into company_contacts as stored
				(bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason)
			select bitrix_id, phone, company_ids, name, assigned_by_id, trouble_contact, perplexity_reason
			from given
			where not exists (
				select from company_contacts same
				where same.bitrix_id = given.bitrix_id
				  and (same.phone, same.company_ids, same.name, same.assigned_by_id, same.trouble_contact, same.perplexity_reason)
				      is not distinct from
				      (given.phone, given.company_ids, given.name, given.assigned_by_id, given.trouble_contact, given.perplexity_reason)
			)
			order by bitrix_id
			on conflict (bitrix_id) do update set
				phone = excluded.phone,
				company_ids = excluded.company_ids,
				name = excluded.name,
				assigned_by_id = excluded.assigned_by_id,
				trouble_contact = excluded.trouble_contact,
				perplexity_reason = excluded.perplexity_reason,
				updated_at = now()
			returning xmax = 0 as created
		)
		select count(*) filter (where created)::int as created, count(*) filter (where not created)::int as changed from saved`;
	return result;
}
