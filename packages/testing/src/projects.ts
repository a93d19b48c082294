import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import type { Sql } from '@contacts/common/database/client.js';

/** What tests need to do to projects and keys, as the operator's command does it. */
export async function insertProject(sql: Sql, code: string, sandbox = false): Promise<void> {
	await sql`insert into projects (code, sandbox) values (${code}, ${sandbox}) on conflict (code) do nothing`;
}

export async function setProjectEnabled(sql: Sql, code: string, enabled: boolean): Promise<void> {
	await sql`update projects set disabled_at = case when ${enabled} then null else now() end where code = ${code}`;
}

export interface NewKey {
	project: string;
	/** SHA-256 of the key. */
	hash: Buffer;
	service: ServiceName | null;
	expiresAt: Date | null;
}

export async function insertKey(sql: Sql, { project, hash, service, expiresAt }: NewKey): Promise<void> {
	await sql`
		insert into api_keys (project_id, hash, service, expires_at)
		select id, ${hash}, ${service}, ${expiresAt?.toISOString() ?? null}::text::timestamptz from projects where code = ${project}
		on conflict (project_id, hash) do nothing`;
}

export async function revokeKeysOf(sql: Sql, project: string): Promise<void> {
	await sql`
		update api_keys set revoked_at = now() where project_id = (select id from projects where code = ${project})`;
}

export async function revokeKey(sql: Sql, id: number): Promise<void> {
	await sql`update api_keys set revoked_at = now() where id = ${id}`;
}
