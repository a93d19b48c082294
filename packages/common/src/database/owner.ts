import { readFile } from 'node:fs/promises';
import postgres from 'postgres';
import { scramVerifier } from './roles.js';

/** The role that owns the database after `owner.sql` was run. */
export const ownerRole = 'contacts_owner';

/**
 * Makes `contacts_owner`, which is not a superuser, the owner of the database and of all objects in its schema. The role
 * can then log in with this password.
 *
 * @param superuserUrl connection URL of a superuser, to this database
 * @returns the owner's connection URL
 */
export async function transferToOwner(superuserUrl: string, password: string): Promise<string> {
	const sql = postgres(superuserUrl, { max: 1, fetch_types: false, onnotice: () => undefined });
	try {
		await sql.unsafe(await readFile(new URL('../../owner.sql', import.meta.url), 'utf8'));
		await sql.unsafe(`alter role ${ownerRole} login password '${scramVerifier(password)}'`);
	} finally {
		await sql.end({ timeout: 5 });
	}
	const owner = new URL(superuserUrl);
	owner.username = ownerRole;
	owner.password = encodeURIComponent(password);
	return owner.href;
}
