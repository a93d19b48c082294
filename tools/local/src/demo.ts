import { hashKey } from '@contacts/common/auth/api-key.js';
import { insertKey, insertProject } from '@contacts/common/auth/projects.sql.js';
import type { PartialContactRow } from '@contacts/common/contacts/company-contact-columns.sql.js';
import { saveCompanyContacts } from '@contacts/common/contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';

export const demoProject = 'demo';
export const demoKey = 'demo-key';

/** Made-up contacts. Their numbers are from ranges reserved for fiction, where a country has one. */
const sampleContacts: PartialContactRow[] = [
	{ bitrix_id: 1002, phone: '+442079460101', company_ids: ['1'], name: 'Alice Carter', assigned_by_id: 5 },
	{
		bitrix_id: 1005,
		phone: '+442079460102',
		company_ids: ['7', '1'],
		name: 'Boris Ivanovich Orlov',
		assigned_by_id: 5,
	},
	{ bitrix_id: 1007, phone: '+12025550103', company_ids: ['11'], name: 'Chen Wei', assigned_by_id: 6 },
	{ bitrix_id: 1008, company_ids: ['21', '10'], name: 'Dana Müller', assigned_by_id: 6 },
	{
		bitrix_id: 1009,
		phone: '+12025550105',
		company_ids: ['1', '11', '21'],
		name: 'Emil "Em" O’Neill',
		assigned_by_id: 7,
		trouble_contact: true,
		perplexity_reason: 'Asks for a call back, never answers',
	},
	{ bitrix_id: 1010, phone: '+442079460106', name: 'Фаина Зайцева' },
];

/** Adds the demo project and the sample contacts to a database without projects and contacts. */
export async function addDemo(sql: Sql): Promise<void> {
	const [used] = await sql<{ used: boolean }[]>`
		select exists (select from projects) or exists (select from company_contacts) as used`;
	if (used?.used !== false) return;
	// All of it or nothing: a start that finds a project adds nothing.
	await sql.unsafe('begin');
	await insertProject(sql, demoProject);
	await insertKey(sql, { project: demoProject, hash: hashKey(demoKey) });
	await saveCompanyContacts(sql, sampleContacts);
	await sql.unsafe('commit');
}
