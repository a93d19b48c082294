import type { Sql } from '../database/client.js';
import type { Database } from '../database/database.js';

export type ServiceName = 'personal-contacts' | 'company-contacts';

/** What the poll watches for a key ring: the version that every change of a project or key increases. */
export const watchedKeys = '(select version::text from public.key_ring_version) as keys';

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
	reason: null;
}

/** Why credentials are rejected. Only for the log. */
export type RejectionReason =
	| 'missing_credential'
	| 'repeated_credential'
	| 'empty_credential'
	| 'malformed_credential'
	| 'unknown_project'
	| 'disabled_project'
	| 'sandbox_project'
	| 'unknown_key'
	| 'revoked_key'
	| 'expired_key'
	| 'key_of_other_service';

/** Why a service rejects a key. */
interface Rejection {
	code: string;
	/** SHA-256 of the key, base64; null: every other key of the project. */
	hash: string | null;
	reason: RejectionReason;
}

/**
 * Stores when keys were used last.
 *
 * @param uses milliseconds since the epoch, by the key's ID
 */
export async function saveKeyUses(database: Database, uses: ReadonlyMap<number, number>): Promise<void> {
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

/** Maximum number of rejected keys in memory: about 3 MB. For older ones the log says that the key is unknown. */
const maxRejectedKeys = 10_000;

/**
 * The keys that a service accepts until they expire: not revoked, and of enabled projects. The service that stores data
 * rejects the keys of sandbox projects, because their data would be stored with real data.
 *
 * Also keys that have expired: the reader decides by `expiresAt`, because the server's clock may be wrong at this moment.
 * Those that expired more than 30 days ago are left out, so that memory does not grow with every rotation.
 *
 * The rejections let the log say why a key was rejected: the newest rejected keys of enabled projects, and one for each project.
 */
export function readKeyRing(sql: Sql, service: ServiceName): PromiseLike<(UnrevokedKey | Rejection)[]> {
	return sql<(UnrevokedKey | Rejection)[]>`
			with known as materialized (
				select p.id, p.code, p.sandbox, k.id as key_id, k.hash, k.expires_at,
				       case
				         when k.revoked_at is not null then 'revoked_key'
				         when k.service <> ${service} then 'key_of_other_service'
				         when p.sandbox and ${service} <> 'company-contacts' then 'sandbox_project'
				         when k.expires_at <= now() - interval '30 days' then 'expired_key'
				       end as reason
				from api_keys k
				join projects p on p.id = k.project_id
				where p.disabled_at is null
			)
			select id::float8 as id,
			       code,
			       sandbox as "isSandbox",
			       key_id::float8 as "keyId",
			       encode(hash, 'base64') as hash,
			       coalesce((extract(epoch from expires_at) * 1000)::float8, 'infinity') as "expiresAt",
			       reason
			from (
				select * from known where reason is null
				union all
				(select * from known where reason is not null order by key_id desc limit ${maxRejectedKeys}::int)
				union all
				select id, code, sandbox, null, null, null,
				       case when disabled_at is null then 'unknown_key' else 'disabled_project' end
				from projects
			) ring`;
}
