import { join } from 'node:path';
import { connectSingle } from '@contacts/common/database/connect.js';
import { migrate } from '@contacts/common/database/migrate.js';
import { setUpRoles, urlAs } from '@contacts/common/database/roles.js';
import { startLocalPostgres } from '@contacts/testing/embedded-postgres.js';
import { newPassword, publishDatabase, superuserPassword, unpublishDatabase } from './data-folder.js';
import { addDemo, demoIsLive } from './demo.js';
import type { StopSteps } from './launcher.js';

export type ServiceName = 'personal-contacts' | 'company-contacts' | 'crm-sync';

interface LocalDatabase {
	/** The connection URL of a service, with its own role. */
	urlFor(service: ServiceName): string;
	/** Whether the demo project's key is valid. */
	demo: boolean;
	/** Resolves when the server has ended. */
	ended: Promise<void>;
}

/** Starts the embedded database of a data folder and migrates it. Adds the demo to an empty one. */
export async function startLocalDatabase(dataFolder: string, stopSteps: StopSteps): Promise<LocalDatabase> {
	const abort = new AbortController();
	const starting = startLocalPostgres({
		dataDirectory: join(dataFolder, 'postgres'),
		password: superuserPassword(dataFolder),
		settings: { max_connections: '200' },
		signal: abort.signal,
	});
	stopSteps.push(async () => {
		abort.abort();
		await starting.then((server) => server.ended).catch(() => undefined);
	});
	const server = await starting;
	const admin = connectSingle(server.url('postgres'));
	const [existing] = await admin`select 1 from pg_database where datname = 'contacts'`;
	if (existing === undefined) await admin`create database contacts`;
	await admin.end();

	// At each start, with new passwords: they need not be stored. A data folder of an earlier version gets its owner.
	const passwords = {
		owner: newPassword(),
		'personal-contacts': newPassword(),
		'company-contacts': newPassword(),
		'crm-sync': newPassword(),
	};
	await setUpRoles(server.url('contacts'), passwords);
	const urlFor = (user: keyof typeof passwords) => urlAs(server.url('contacts'), user, passwords[user]);
	const url = urlFor('owner');
	await migrate(url);
	const sql = connectSingle(url);
	await addDemo(sql);
	const demo = await demoIsLive(sql);
	await sql.end();
	publishDatabase(dataFolder, url);
	stopSteps.push(async () => unpublishDatabase(dataFolder));
	return { urlFor, demo, ended: server.ended };
}
