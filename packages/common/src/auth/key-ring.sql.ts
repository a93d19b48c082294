import type { Database } from '../database/database.js';
import { DatabaseError } from '../database/errors.js';

export type ServiceName = 'personal-contacts' | 'company-contacts';

/** The API client that a request comes from. */
export interface Project {
	id: number;
	code: string;
	/** It sees only invented contacts. */
	isSandbox: boolean;
	/** The key of the request. */
	keyId: number;
}

export interface UnrevokedKey extends Project {
	/** SHA-256 of the key, base64. */
	hash: string;
	/** Milliseconds since the epoch; Infinity: never. */
	expiresAt: number;
}

/** The version, which every change of a project or a key increments. */
export async function readKeyRingVersion(database: Database): Promise<string> {
	const rows = await database.queryReserved(
		(sql) => sql<{ version: string }[]>`select version::text from key_ring_version`,
	);
	return rows[0]?.version ?? '';
}

/**
 * Stores when keys were used last.
 *
 * @param uses milliseconds since the epoch, by the key's ID
 * @throws DatabaseError also when the server is read-only
 */
export async function saveKeyUses(database: Database, uses: ReadonlyMap<number, number>): Promise<void> {
	// A refused write replaces all connections, to find the primary. A process that reads from a standby needs none.
	const [server] = await database.query(
		(sql) => sql<{ readOnly: boolean }[]>`select current_setting('transaction_read_only') = 'on' as "readOnly"`,
	);
	if (server?.readOnly) throw new DatabaseError('the server is read-only');
	const rows = JSON.stringify([...uses].map(([key_id, at]) => ({ key_id, at: new Date(at).toISOString() })));
	// Skips keys that were deleted meanwhile. One of them would fail the whole batch, every time.
	await database.query(
		(sql) => sql`
			insert into api_key_uses as stored (key_id, last_used_at)
			select k.id, use.at
			from json_to_recordset(${rows}::text::json) as use (key_id bigint, at timestamptz)
			join api_keys k on k.id = use.key_id
			order by k.id
			on conflict (key_id) do update set last_used_at = greatest(stored.last_used_at, excluded.last_used_at)`,
	);
}

/**
 * The keys that a service accepts until they expire: not revoked, and of enabled projects. The service that stores data
 * rejects the keys of sandbox projects, because their data would be stored with real data.
 *
 * Also keys that have expired: the reader decides by `expiresAt`, because the server's clock may be wrong at this moment.
 * Those that expired more than 30 days ago are left out, so that memory does not grow with every rotation.
 */
export function readUnrevokedKeys(database: Database, service: ServiceName): Promise<readonly UnrevokedKey[]> {
	return database.queryReserved(
		(sql) => sql<UnrevokedKey[]>`
			select p.id::float8 as id,
			       p.code,
			       p.sandbox as "isSandbox",
			       k.id::float8 as "keyId",
			       encode(k.hash, 'base64') as hash,
			       coalesce((extract(epoch from k.expires_at) * 1000)::float8, 'infinity') as "expiresAt"
			from api_keys k
			join projects p on p.id = k.project_id
			where p.disabled_at is null
			  and k.revoked_at is null
			  and (k.expires_at is null or k.expires_at > now() - interval '30 days')
			  and (k.service is null or k.service = ${service})
			  and (not p.sandbox or ${service} = 'company-contacts')`,
	);
}
