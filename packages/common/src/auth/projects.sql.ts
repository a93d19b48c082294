import type { Sql } from '../database/client.js';
import type { ServiceName } from './key-ring.sql.js';

// What is written of projects and their keys.

/** @returns whether the project was created; false: the code is in use */
export async function insertProject(sql: Sql, code: string, sandbox = false): Promise<boolean> {
	const rows = await sql`
		insert into projects (code, sandbox) values (${code}, ${sandbox}) on conflict (code) do nothing returning id`;
	return rows.length > 0;
}

/** @returns whether there is such a project */
export async function setProjectEnabled(sql: Sql, code: string, enabled: boolean): Promise<boolean> {
	const rows = await sql`
		update projects set disabled_at = case when ${enabled} then null else coalesce(disabled_at, now()) end
		where code = ${code} returning id`;
	return rows.length > 0;
}

export interface NewKey {
	project: string;
	/** SHA-256 of the key. */
	hash: Buffer;
	/** What the key is for. */
	name?: string | null;
	/** The only service that accepts it. Default: each. */
	service?: ServiceName | null;
	/** Default: it has no end. */
	expiresAt?: Date | null;
}

/** @returns the key's ID; undefined: the project already has this key, perhaps revoked, or there is no such project */
export async function insertKey(
	sql: Sql,
	{ project, hash, name = null, service = null, expiresAt = null }: NewKey,
): Promise<number | undefined> {
	const end = sql`${expiresAt?.toISOString() ?? null}::text::timestamptz`;
	const [row] = await sql<{ id: number }[]>`
		insert into api_keys (project_id, hash, name, service, expires_at, lifetime)
		select id, ${hash}, ${name}::text, ${service}::text, ${end}, case when ${end} > now() then ${end} - now() end
		from projects where code = ${project}
		on conflict (project_id, hash) do nothing
		returning id::float8 as id`;
	return row?.id;
}

/** @returns whether there was such a key and it was not revoked before */
export async function revokeKey(sql: Sql, id: number): Promise<boolean> {
	const rows = await sql`update api_keys set revoked_at = now() where id = ${id} and revoked_at is null returning id`;
	return rows.length > 0;
}
