import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { isoTime } from '@contacts/common/database/iso-time.sql.js';
import { CommandError } from '../errors.js';

export function readProjects(sql: Sql): Promise<readonly object[]> {
	return sql`
		select p.code,
		       case when p.disabled_at is null then 'enabled' else 'disabled' end as state,
		       p.sandbox,
		       count(k.id) filter (where k.revoked_at is null and (k.expires_at is null or k.expires_at > now()))::int as live_keys,
		       ${isoTime(sql, 'p.created_at')} as created_at
		from projects p left join api_keys k on k.project_id = p.id
		group by p.id order by p.code`;
}

export const noProject = (code: string) =>
	new CommandError(`There is no project "${code}": contacts project list shows all.`);

/** @throws CommandError when there is no such project */
export async function checkProject(sql: Sql, code: string): Promise<void> {
	if ((await sql`select from projects where code = ${code}`).length === 0) throw noProject(code);
}

/** The keys of one project, or of all. `last_used_at` may lag by a minute. */
export function readKeys(sql: Sql, project?: string): Promise<readonly object[]> {
	return sql`
		select k.id::float8 as id,
		       p.code as project,
		       k.name,
		       k.service,
		       case when k.revoked_at is not null then 'revoked' when k.expires_at <= now() then 'expired' else 'live' end as state,
		       ${isoTime(sql, 'k.created_at')} as created_at,
		       ${isoTime(sql, 'k.expires_at')} as expires_at,
		       ${isoTime(sql, 'k.revoked_at')} as revoked_at,
		       ${isoTime(sql, 'u.last_used_at')} as last_used_at
		from api_keys k
		join projects p on p.id = k.project_id
		left join api_key_uses u on u.key_id = k.id
		${project === undefined ? sql`` : sql`where p.code = ${project}`}
		order by k.id`;
}

interface RotatedKey {
	id: number;
	project: string;
	name: string | null;
	service: ServiceName | null;
	/** When it expires. Null: never. */
	expires_at: string | null;
	/** When the old key expires. */
	old_expires_at: string;
	/** Whether the old key had another end than the one that it was created with. */
	was_ending: boolean;
}

/**
 * Replaces a live key with a new one. The old key expires after an overlap, or at its own expiry if that is sooner. The new one has
 * the lifetime with which the old one was created.
 *
 * @param overlap seconds
 * @returns undefined if there is no such live key
 */
export async function rotateKey(sql: Sql, id: number, hash: Buffer, overlap: number): Promise<RotatedKey | undefined> {
	const [row] = await sql<RotatedKey[]>`
		with live as (
			select id, project_id, name, service, expires_at, lifetime,
			       expires_at is distinct from created_at + lifetime as was_ending
			from api_keys
			where id = ${id} and revoked_at is null and (expires_at is null or expires_at > now())
			for update
		), old as (
			update api_keys k set expires_at = least(live.expires_at, now() + make_interval(secs => ${overlap}))
			from live where k.id = live.id
			returning k.expires_at
		), new as (
			insert into api_keys (project_id, hash, name, service, expires_at, lifetime)
			select project_id, ${hash}, name, service, now() + lifetime, lifetime from live
			returning id, project_id, name, service, expires_at
		)
		select new.id::float8 as id, p.code as project, new.name, new.service, ${isoTime(sql, 'new.expires_at')} as expires_at,
		       ${isoTime(sql, 'old.expires_at')} as old_expires_at, live.was_ending
		from new, old, live, projects p where p.id = new.project_id`;
	return row;
}
