import { hashKey } from '@contacts/common/auth/api-key.js';
import { insertKey, insertProject, revokeKey } from '@contacts/common/auth/projects.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { saveCompanyContacts } from '@contacts/company-contacts/save-company-contacts.sql.js';
import { excludedTables } from '../backup/tables.sql.js';
import { generateContacts } from './generated-contacts.js';

/** Fills every table with all kinds of values: Unicode, control characters, nulls, empty lists, extremes. */
export async function fillDatabase(sql: Sql, companyContacts: number): Promise<void> {
	for (const code of ['alpha', 'beta', 'gone']) await insertProject(sql, code);
	for (const [project, key] of [
		['alpha', 'alpha-key'],
		['alpha', 'revoked-key'],
		['beta', 'beta-key'],
	] as const) {
		const expiresAt = key === 'beta-key' ? new Date('2999-01-01T00:00:00.123Z') : null;
		await insertKey(sql, { project, hash: hashKey(key), service: null, expiresAt });
	}
	await revokeKey(sql, 2);
	await sql`delete from projects where code = 'gone'`;
	await sql`insert into api_key_uses values (1, '2026-01-02 03:04:05.678901+00')`;
	const awkward = [
		'',
		' ',
		'\\',
		'\\.',
		'\t\r\n\u0001\u2028',
		'"quoted", {a} [b]',
		'🙂 Ivan Петров',
		'e\u0301',
		'\uFEFFx',
	];
	for (const [index, name] of awkward.entries()) {
		await sql`
			insert into personal_contacts (chat_id, username, name, birth_date, project_id)
			values (${index % 2 ? -index - 1 : index + 1}, ${index % 3 ? name : null}, ${name},
			        ${index % 2 ? '0001-01-01' : '9999-12-31'}::text::date, 1)`;
	}
	await sql`insert into personal_contacts (chat_id, project_id) values (9007199254740991, 2), (-9007199254740991, 2)`;
	await sql`
		insert into direct_subscriptions (chat_id, started_at, ended_at)
		values (1, now() - interval '1 day', null), (3, '2020-01-01', '2020-02-01'), (5, now(), 'infinity')`;
	const contacts = generateContacts(companyContacts, 5).map((contact) => ({
		bitrix_id: Number(contact.bitrix_id),
		phone: contact.phone,
		company_ids: contact.company_ids?.split(',') ?? null,
		name: contact.name,
		assigned_by_id: contact.assigned_by_id === null ? null : Number(contact.assigned_by_id),
		trouble_contact: contact.trouble_contact === 'true',
		perplexity_reason: contact.perplexity_reason,
	}));
	await saveCompanyContacts(sql, contacts);
	await sql`
		insert into company_contacts (bitrix_id, company_ids, name)
		values (1, '{}', ''), (2, '{9223372036854775807}', '\\.'), (9007199254740991, null, 'the last, deleted')`;
	await sql`delete from company_contacts where bitrix_id = 9007199254740991`;
	await sql`
		update crm_sync_state set watermark = now() - interval '1 hour', last_success_at = now(), bucket_arrival = 1e12 + 0.1,
			alarm = 'mass_delete: 30 missing', alarm_at = now(), full_cursor = 7,
			configuration = '{"portal": "example.bitrix24.com", "trouble_options": ["5"]}'`;
	await sql`insert into crm_sync_runs (kind, outcome, seen) values ('full', 'done', 5)`;
	await sql`insert into crm_event_inbox (bitrix_id, event) values (77, 'ONCRMCONTACTADD')`;
}

/**
 * All stored data except that of the database itself: each table's rows, and the next IDs. It omits the audit
 * log's records of backups and restores.
 */
export async function readEverything(sql: Sql): Promise<Record<string, string[]>> {
	const tables = await sql<{ name: string }[]>`
		select table_name as name from information_schema.tables
		where table_schema = 'public' and table_name not in ${sql(excludedTables)} order by table_name`;
	const found: Record<string, string[]> = {};
	for (const { name } of tables) {
		const rows = await sql<{ row: string }[]>`select t::text as row from ${sql(name)} t
			where ${name !== 'audit_log'} or to_jsonb(t) ->> 'project' is not null order by t::text collate "C"`;
		found[name] = rows.map(({ row }) => row);
	}
	const sequences = await sql<{ name: string }[]>`
		select relname as name from pg_class where relkind = 'S' and relnamespace = 'public'::regnamespace and relname <> 'audit_log_id_seq' order by relname`;
	found.sequences = [];
	for (const { name } of sequences) {
		const [row] = await sql<[{ next: string }]>`select last_value + is_called::int as next from ${sql(name)}`;
		found.sequences.push(`${name} ${row.next}`);
	}
	return found;
}
