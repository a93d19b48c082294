import type { Database } from '../database/database.js';

export type ServiceName = 'personal-contacts' | 'company-contacts';

export interface LiveKeyRow {
	key_id: number;
	project_id: number;
	project_code: string;
	/** SHA-256 of the key, base64. */
	hash: string;
	/** Milliseconds since the epoch; null: never. */
	expires_at: number | null;
}

/** The version that every change of a project or a key raises. */
export async function readKeyRingVersion(database: Database): Promise<string> {
	const rows = await database.query((sql) => sql<{ version: string }[]>`select version::text from key_ring_version`);
	return rows[0]?.version ?? '';
}

/** The keys that a service takes: neither revoked nor expired, and of enabled projects. */
export function readLiveKeys(database: Database, service: ServiceName): Promise<readonly LiveKeyRow[]> {
	return database.query(
		(sql) => sql<LiveKeyRow[]>`
			select k.id::float8 as key_id,
			       p.id::float8 as project_id,
			       p.code as project_code,
			       encode(k.hash, 'base64') as hash,
			       (extract(epoch from k.expires_at) * 1000)::float8 as expires_at
			from api_keys k
			join projects p on p.id = k.project_id
			where p.disabled_at is null
			  and k.revoked_at is null
			  and (k.expires_at is null or k.expires_at > now())
			  and (k.service is null or k.service = ${service})`,
	);
}
