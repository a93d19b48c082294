import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Sql } from './client.js';
import { connectSingle } from './connect.js';
import { errorCode } from './errors.js';

/** The database roles, by what connects with them. */
export const roles = {
	'personal-contacts': 'personal_contacts_service',
	'company-contacts': 'company_contacts_service',
	'company-contacts-sync': 'company_contacts_sync',
	operator: 'contacts_operator',
	privacy: 'contacts_privacy',
} as const;

export type RoleUser = keyof typeof roles;

/** Lets roles log in with these passwords. The server is sent verifiers, so that no password can get into its log. */
export async function setRolePasswords(ownerUrl: string, passwords: Partial<Record<RoleUser, string>>): Promise<void> {
	const sql = connectSingle(ownerUrl);
	try {
		for (const [user, password] of Object.entries(passwords)) {
			const role = roles[user as RoleUser];
			await alterRole(sql, `alter role ${role} login password '${scramVerifier(password)}'`);
		}
	} finally {
		await sql.end({ timeout: 5 });
	}
}

/**
 * Repeats the statement where another session has altered the role meanwhile: PostgreSQL then fails it instead of applying
 * both. An advisory lock would not prevent this: it holds for one database, and roles belong to the whole server.
 */
async function alterRole(sql: Sql, statement: string): Promise<void> {
	for (let triesLeft = 10; ; triesLeft--) {
		try {
			return void (await sql.unsafe(statement));
		} catch (error) {
			if (triesLeft === 1 || errorCode(error) !== 'XX000' || !/tuple concurrently updated/.test(String(error)))
				throw error;
		}
	}
}

/** The same database, as another user. */
export function urlAs(url: string, user: RoleUser, password: string): string {
	const credentials = `${roles[user]}:${encodeURIComponent(password)}@`;
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
	const sql = connectSingle(superuserUrl);
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
