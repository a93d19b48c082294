import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashKey } from '@contacts/common/auth/api-key.js';
import { insertKey, insertProject } from '@contacts/common/auth/projects.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { connectSingle } from '@contacts/common/database/connect.js';
import { migrate } from '@contacts/common/database/migrate.js';
import { setRolePasswords, urlAs } from '@contacts/common/database/roles.js';
import { startLocalPostgres } from '@contacts/local-postgres/server.js';
import { durability, fillCompanyContacts, readSettings, readVersion } from './data.sql.js';
import type { Lifetime } from './lifetime.js';

/** The project that every request comes from. */
export const credentials = 'project=bench&api_key=bench-key';

const password = 'bench';

/** A PostgreSQL server for this run, in a temporary folder. */
export interface BenchDatabase {
	/** The owner's connection. */
	sql: Sql;
	version: string;
	settings: Record<string, string>;
	/** Whether its folder is in memory. */
	inMemory: boolean;
	/** Connection URL with the service's own role. */
	urlFor(service: 'personal-contacts' | 'company-contacts'): string;
	/** Ensures that there are exactly this many company contacts. */
	haveCompanyContacts(count: number): Promise<void>;
	/** Resolves when the server has ended by itself. */
	ended: Promise<void>;
}

/** @throws Error when a commit would not be durable, which would make every measurement wrong */
export async function startDatabase(lifetime: Lifetime): Promise<BenchDatabase> {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-bench-'));
	lifetime.own(() => rmSync(folder, { recursive: true, force: true }));
	const server = await startLocalPostgres({ dataDirectory: join(folder, 'postgres'), password });
	lifetime.own(() => server.stop());

	const owner = connectSingle(server.url('postgres'));
	await owner`create database contacts`;
	await owner.end();
	const url = server.url('contacts');
	await migrate(url);
	await setRolePasswords(url, { 'personal-contacts': password, 'company-contacts': password });

	// A lock that nobody releases ends the run with an error.
	const sql = connectSingle(url, { connection: { statement_timeout: 300_000 } });
	lifetime.own(() => sql.end({ timeout: 5 }));
	const settings = await readSettings(sql);
	const off = durability.filter((name) => settings[name] !== 'on');
	if (off.length > 0) throw new Error(`PostgreSQL runs with ${off.join(' and ')} not on: nothing could be concluded`);
	await insertProject(sql, 'bench');
	await insertKey(sql, { project: 'bench', hash: hashKey('bench-key'), service: null, expiresAt: null });

	let contacts = 0;
	return {
		sql,
		version: await readVersion(sql),
		settings,
		inMemory: isInMemory(folder),
		urlFor: (service) => urlAs(url, service, password),
		async haveCompanyContacts(count) {
			if (contacts === count) return;
			await fillCompanyContacts(sql, count);
			contacts = count;
		},
		ended: server.ended,
	};
}

/** Whether a folder is on tmpfs or ramfs (Linux; the numbers are from linux/magic.h). */
function isInMemory(folder: string): boolean {
	return process.platform === 'linux' && [0x01021994, 0x858458f6].includes(statfsSync(folder).type);
}
