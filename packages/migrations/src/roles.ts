import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { connectSingle } from '@contacts/common/database/connect.js';

/** The database roles, by what connects with them. */
export const roles = {
	'personal-contacts': 'personal_contacts_service',
	'company-contacts': 'company_contacts_service',
	'crm-sync': 'crm_sync_service',
	operator: 'contacts_operator',
	privacy: 'contacts_privacy',
	backup: 'contacts_backup',
} as const;

export type RoleUser = keyof typeof roles;

/** The role that owns the database after `owner.sql` was run. */
export const ownerRole = 'contacts_owner';

const roleNames = { ...roles, owner: ownerRole } as const;

/** Creates all roles, and makes `contacts_owner` the owner of the database and of all objects in its schema. */
export async function createRoles(run: (statements: string) => Promise<unknown>): Promise<void> {
	await run(await readFile(new URL('../owner.sql', import.meta.url), 'utf8'));
}

/**
 * Creates the roles, and lets them log in with these passwords. The server is sent verifiers, so that no password can get into its
 * log.
 *
 * @param superuserUrl connection URL of a superuser, to this database
 */
export async function setUpRoles(
	superuserUrl: string,
	passwords: Partial<Record<RoleUser | 'owner', string>>,
): Promise<void> {
	const sql = connectSingle(superuserUrl);
	try {
		await createRoles((statements) => sql.unsafe(statements));
		for (const [user, password] of Object.entries(passwords)) {
			const role = roleNames[user as RoleUser | 'owner'];
			await sql.unsafe(`alter role ${role} login password '${scramVerifier(password)}'`);
		}
	} finally {
		await sql.end({ timeout: 5 });
	}
}

/** The same database, as another user. */
export function urlAs(url: string, user: RoleUser | 'owner', password: string): string {
	const credentials = `${roleNames[user]}:${encodeURIComponent(password)}@`;
	return url.replace(/^([a-z]+:\/\/)(?:[^/?#]*@)?/, (_, protocol) => protocol + credentials);
}

/** A SCRAM-SHA-256 verifier in the form that PostgreSQL stores (RFC 5803, RFC 7677). */
function scramVerifier(password: string): string {
	const iterations = 4096;
	const salt = randomBytes(16);
	const salted = pbkdf2Sync(password.normalize('NFKC'), salt, iterations, 32, 'sha256');
	const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest();
	const storedKey = createHash('sha256').update(hmac(salted, 'Client Key')).digest('base64');
	const serverKey = hmac(salted, 'Server Key').toString('base64');
	return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
}
