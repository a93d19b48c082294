import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashKey } from '@contacts/common/auth/api-key.js';
import { insertKey, insertProject } from '@contacts/common/auth/projects.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { migrate } from '@contacts/common/database/migrate.js';
import { setRolePasswords, urlAs } from '@contacts/common/database/roles.js';
import { saveCompanyContacts } from '@contacts/company-contacts/save-company-contacts.sql.js';
import { startLocalPostgres } from '@contacts/local-postgres/server.js';
import postgres from 'postgres';
import { type Service, startService } from './service.js';

export interface Stage {
	company: Service;
	personal: Service;
	/** The query string with the credentials for both services. */
	credentials: string;
	/** Changes one of the contacts, so that the services rebuild their cached lists. */
	changeContact(): Promise<void>;
	/** Connections of PostgreSQL, by application name. */
	backends(): Promise<Map<string, number>>;
	/** Resolves with the first part that ends. */
	broken: Promise<string>;
	/** Stops everything, the database last, and removes it. @returns the parts that did not stop gracefully */
	stop(): Promise<string[]>;
}

const companies = 100;
const contacts = 2000;

const contact = (number: number, reason: string) => ({
	bitrix_id: number,
	phone: `+1202555${String(number % 10_000).padStart(4, '0')}`,
	company_ids: [String((number % companies) + 1)],
	name: `Contact ${number}`,
	assigned_by_id: (number % 20) + 1,
	trouble_contact: number % 50 === 0,
	perplexity_reason: reason,
});

/** A separate PostgreSQL with made-up contacts, and both services on it. */
export async function setStage(): Promise<Stage> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-soak-'));
	const password = randomBytes(24).toString('base64url');
	const undo: (() => Promise<string | undefined>)[] = [
		async () => void rmSync(folder, { recursive: true, force: true }),
	];
	const stop = async () => {
		const complaints: string[] = [];
		for (const step of undo.splice(0).reverse()) {
			const complaint = await step();
			if (complaint !== undefined) complaints.push(complaint);
		}
		return complaints;
	};
	try {
		const server = await startLocalPostgres({ dataDirectory: join(folder, 'postgres'), password });
		undo.push(async () => void (await server.stop()));
		const url = server.url('postgres');
		await migrate(url);
		await setRolePasswords(url, { 'personal-contacts': password, 'company-contacts': password });
		const sql: Sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => undefined });
		undo.push(async () => void (await sql.end({ timeout: 5 })));

		const key = randomBytes(24).toString('base64url');
		await insertProject(sql, 'soak');
		await insertKey(sql, { project: 'soak', hash: hashKey(key), service: null, expiresAt: null });
		await saveCompanyContacts(
			sql,
			Array.from({ length: contacts }, (_, index) => contact(index + 1, '')),
		);

		const start = async (name: 'company-contacts' | 'personal-contacts', rest: Record<string, string> = {}) => {
			const service = await startService(name, { DATABASE_URL: urlAs(url, name, password), ...rest });
			undo.push(async () => {
				const code = await service.stop();
				return code === 0 ? undefined : `${name} ended with exit ${code}`;
			});
			return service;
		};
		// The load comes from one client, and this tool does not test its rate limit.
		const company = await start('company-contacts', { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' });
		const personal = await start('personal-contacts');
		const broken = Promise.race([company.crashed, personal.crashed, server.ended.then(() => 'PostgreSQL has ended.')]);
		let changes = 0;
		return {
			company,
			personal,
			credentials: `project=soak&api_key=${key}`,
			async changeContact() {
				changes++;
				await saveCompanyContacts(sql, [contact((changes % contacts) + 1, `Changed ${changes} times`)]);
			},
			async backends() {
				const rows = await sql<{ name: string; count: number }[]>`
					select application_name as name, count(*)::int as count from pg_stat_activity
					where application_name like '%-contacts' group by application_name`;
				return new Map(rows.map(({ name, count }) => [name, count]));
			},
			broken,
			stop,
		};
	} catch (error) {
		await stop();
		throw error;
	}
}
