import { type RoleUser, roles, setUpRoles } from '@contacts/migrations/roles.js';
import { rolePassword, withConnection } from './database.js';

/**
 * Creates all roles of a server, without a connection limit: tests that run at once share them. The roles then have the
 * same password.
 *
 * @param url a superuser's connection URL
 */
export async function createRoles(url: string): Promise<void> {
	await withConnection(url, async (sql) => {
		// Roles belong to the server. The script also changes the owner of its database, so it gets one that is dropped.
		const name = 'contacts_roles';
		await sql.unsafe(`drop database if exists ${name}`);
		await sql.unsafe(`create database ${name}`);
		const users = Object.keys(roles) as RoleUser[];
		await setUpRoles(
			Object.assign(new URL(url), { pathname: `/${name}` }).href,
			Object.fromEntries(users.map((user) => [user, rolePassword])),
		);
		await sql.unsafe(`drop database ${name}`);
		for (const role of Object.values(roles)) await sql.unsafe(`alter role ${role} connection limit -1`);
	});
}
