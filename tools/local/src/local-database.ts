import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { connectSingle } from '@contacts/common/database/connect.js';
import { LocalPostgresError, startLocalPostgres } from '@contacts/local-postgres/local-postgres.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { setUpRoles, urlAs } from '@contacts/migrations/roles.js';
import { addDemo } from './demo.js';

interface LocalDatabase {
	/** The connection URL of a service, with its own role. */
	urlFor(service: ServiceName): string;
	/** Resolves when the server has ended. */
	ended: Promise<void>;
}

/** What stops each part. Each part adds its own as soon as it exists, even while it is starting. */
export type StopSteps = (() => Promise<void>)[];

/** Starts the embedded database of a data folder and migrates it. Adds the demo to an empty one, and lets `contacts` find it. */
export async function startLocalDatabase(dataFolder: string, stopSteps: StopSteps): Promise<LocalDatabase> {
	mkdirSync(dataFolder, { recursive: true });
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

	// At each start, with new passwords: they need not be stored.
	const passwords = {
		owner: newPassword(),
		'personal-contacts': newPassword(),
		'company-contacts': newPassword(),
		// Nobody uses it here. Without one, doctor would warn of it.
		'crm-sync': newPassword(),
	};
	await setUpRoles(server.url('contacts'), passwords);
	const urlFor = (user: keyof typeof passwords) => urlAs(server.url('contacts'), user, passwords[user]);
	await migrate(urlFor('owner'));
	const sql = connectSingle(urlFor('owner'));
	await addDemo(sql);
	await sql.end();

	const file = join(dataFolder, 'database.json');
	stopSteps.push(async () => rmSync(file, { force: true }));
	// A reader never sees a part of it.
	writeFileSync(`${file}.new`, JSON.stringify({ url: urlFor('owner') }), { mode: 0o600 });
	renameSync(`${file}.new`, file);
	return { urlFor, ended: server.ended };
}

const newPassword = () => randomBytes(24).toString('base64url');

/** The superuser's password. It is created once, also by two starts at the same time, and readable only by this user. */
function superuserPassword(dataFolder: string): string {
	const file = join(dataFolder, 'password');
	const own = `${file}.${process.pid}`;
	writeFileSync(own, newPassword(), { mode: 0o600, flush: true });
	try {
		linkSync(own, file);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
	} finally {
		rmSync(own);
	}
	const password = readFileSync(file, 'utf8');
	if (password === '')
		throw new LocalPostgresError(
			`${file} is empty, so nobody can use the data beside it: put a copy of the file back, or delete ${dataFolder}.`,
		);
	return password;
}
