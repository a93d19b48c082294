import type { Sql } from '@contacts/common/database/client.js';

/** What ended access before a restore, and still ends it. */
export interface KeptRevocations {
	revoked_keys: number;
	earlier_expiries: number;
	disabled_projects: number;
}

/** The revoked and expiring keys and the disabled projects, as JSON: what replaces them must not make them valid again. */
export async function readRevocations(sql: Sql): Promise<string> {
	const [row] = await sql<[{ revocations: string }]>`
		select json_build_object(
			'keys', (
				select coalesce(json_agg(json_build_object(
					'project', p.code, 'hash', encode(k.hash, 'hex'), 'revoked_at', k.revoked_at, 'expires_at', k.expires_at
				)), '[]')
				from api_keys k join projects p on p.id = k.project_id
				where k.revoked_at is not null or k.expires_at is not null
			),
			'projects', (
				select coalesce(json_agg(json_build_object('project', code, 'disabled_at', disabled_at)), '[]')
				from projects where disabled_at is not null
			)
		)::text as revocations`;
	return row.revocations;
}

/** Ends access for the same keys and projects where the backup is older. The audit log records each. */
export async function keepRevocations(sql: Sql, revocations: string): Promise<KeptRevocations> {
	const given = sql`
		json_to_recordset(${revocations}::text::json -> 'keys')
			as given (project text, hash text, revoked_at timestamptz, expires_at timestamptz)
		join projects p on p.code = given.project`;
	const isSame = sql`k.project_id = p.id and k.hash = decode(given.hash, 'hex') and k.revoked_at is null`;
	const revoked = await sql`
		update api_keys k set revoked_at = given.revoked_at from ${given} where ${isSame} and given.revoked_at is not null`;
	const shortened = await sql`
		update api_keys k set expires_at = given.expires_at from ${given}
		where ${isSame} and given.expires_at < coalesce(k.expires_at, 'infinity')`;
	const disabled = await sql`
		update projects p set disabled_at = given.disabled_at
		from json_to_recordset(${revocations}::text::json -> 'projects') as given (project text, disabled_at timestamptz)
		where p.code = given.project and p.disabled_at is null`;
	return { revoked_keys: revoked.count, earlier_expiries: shortened.count, disabled_projects: disabled.count };
}
