import type { Database } from '@contacts/common/database/database.js';

/** A contact as it goes over the wire: exactly these fields, in this order. */
export interface CompanyContactRow {
	id: number;
	bitrix_id: number;
	/** E.164 */
	phone: string | null;
	/** Comma-separated, in the CRM's order. */
	company_ids: string | null;
	name: string | null;
	assigned_by_id: number | null;
	trouble_contact: 'true' | null;
	perplexity_reason: string | null;
}

/**
 * All contacts, or those of one company, ordered by id.
 *
 * @param companyId decimal digits, at most 2^63 − 1
 * @throws DatabaseError, DatabaseBusyError
 */
export function readCompanyContacts(database: Database, companyId?: string): Promise<readonly CompanyContactRow[]> {
	return database.query(
		(sql) => sql<CompanyContactRow[]>`
			select id::float8 as id,
			       bitrix_id::float8 as bitrix_id,
			       phone,
			       array_to_string(company_ids, ',') as company_ids,
			       name,
			       assigned_by_id::float8 as assigned_by_id,
			       case when trouble_contact then 'true' end as trouble_contact,
			       perplexity_reason
			from company_contacts
			${companyId === undefined ? sql`` : sql`where company_ids @> array[${companyId}::bigint]`}
			order by id`,
	);
}
