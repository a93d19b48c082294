import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connectSingle } from '@contacts/common/database/connect.js';
import { migrate } from '@contacts/common/database/migrate.js';
import { setRolePasswords, transferToOwner, urlAs } from '@contacts/common/database/roles.js';
import type { HeldFolder } from '@contacts/local-postgres/data-folder.js';
import { type LocalPostgres, startLocalPostgres } from '@contacts/local-postgres/server.js';
import { addDemo, demoIsLive } from './demo.js';

export type ServiceName = 'personal-contacts' | 'company-contacts' | 'company-contacts-sync';

interface LocalDatabase {
	/** The connection URL of a service, with its own role. */
	urlFor(service: ServiceName): string;
	/** Whether the demo project's key is valid. */
	demo: boolean;
	server: LocalPostgres;
}

/** Starts the embedded database of a data folder and migrates it. Adds the demo to an empty one. */
export async function startLocalDatabase(dataFolder: string, folder: HeldFolder): Promise<LocalDatabase> {
	const password = passwordOf(dataFolder);
	const server = await startLocalPostgres({
		dataDirectory: join(dataFolder, 'postgres'),
		password,
		settings: { max_connections: '200' },
	});
	try {
		const admin = connectSingle(server.url('postgres'));
		const [existing] = await admin`select from pg_database where datname = 'contacts'`;
		if (existing === undefined) await admin`create database contacts`;
		await admin.end();

		// At each start, because the superuser owns the database in a data folder of an earlier version.
		const url = await transferToOwner(server.url('contacts'), password);
		await migrate(url);
		await setRolePasswords(url, {
			'personal-contacts': password,
			'company-contacts': password,
			'company-contacts-sync': password,
		});
		const sql = connectSingle(url);
		await addDemo(sql);
		const demo = await demoIsLive(sql);
		await sql.end();
		folder.publish({ databaseUrl: url });
		return { urlFor: (service) => urlAs(url, service, password), demo, server };
	} catch (error) {
		await server.stop();
		throw error;
	}
}

/** The database's password. Created once, and readable only by this user. */
function passwordOf(dataFolder: string): string {
	const file = join(dataFolder, 'password');
	const known = existsSync(file) ? readFileSync(file, 'utf8') : '';
	// Empty: the disk was full.
	if (known !== '') return known;
	const password = randomBytes(24).toString('base64url');
	writeFileSync(`${file}.new`, password, { mode: 0o600 });
	renameSync(`${file}.new`, file);
	return password;
}
