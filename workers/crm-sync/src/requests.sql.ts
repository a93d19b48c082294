import type { Sql } from '@contacts/common/database/client.js';
import type { MirrorConfiguration } from './mirror-configuration.js';
import type { RequestResult } from './requests.js';

/** What a command requests. */
export interface SyncRequest {
	kind: 'pass' | 'full' | 'contact' | 'dry-run';
	/** For `contact` only. */
	bitrix_id: number | null;
	confirm_mass_delete: boolean;
}

interface TakenRequest extends SyncRequest {
	id: string;
	/** The options of the command. */
	configuration: MirrorConfiguration;
}

/** A request expires after this many seconds if its command has not renewed it. */
const wantedSeconds = 30;

/** Stores a request for the synchroniser that holds the lock. */
export async function insertRequest(
	sql: Sql,
	{ kind, bitrix_id, confirm_mass_delete }: SyncRequest,
	configuration: MirrorConfiguration,
): Promise<string> {
	const [row] = await sql<[{ id: string }]>`
		insert into crm_sync_requests (kind, bitrix_id, confirm_mass_delete, configuration, wanted_until)
		values (${kind}, ${bitrix_id}, ${confirm_mass_delete}, ${JSON.stringify(configuration)}::text::jsonb,
		        clock_timestamp() + make_interval(secs => ${wantedSeconds}))
		returning id`;
	return row.id;
}

interface RequestState {
	is_taken: boolean;
	seen: number | null;
	total: number | null;
	result: RequestResult | null;
	/** The current run, with or without a request. */
	running: string | null;
	/** Changes with each request to the portal. */
	bucket_arrival: number;
}

/** Renews the request. @returns undefined if the request no longer exists */
export async function renewRequest(sql: Sql, id: string): Promise<RequestState | undefined> {
	const [row] = await sql<RequestState[]>`
		update crm_sync_requests r set wanted_until = clock_timestamp() + make_interval(secs => ${wantedSeconds})
		from crm_sync_state s
		where r.id = ${id}
		returning r.taken_at is not null as is_taken, r.seen::float8 as seen, r.total::float8 as total, r.result,
		          (select kind || ' pass' from crm_sync_runs where ended_at is null order by id desc limit 1) as running,
		          s.bucket_arrival`;
	return row;
}

/** @returns false if the synchroniser has already started it, or it no longer exists */
export async function withdrawRequest(sql: Sql, id: string): Promise<boolean> {
	return (await sql`delete from crm_sync_requests where id = ${id} and taken_at is null returning 1`).length > 0;
}

export async function deleteRequest(sql: Sql, id: string): Promise<void> {
	await sql`delete from crm_sync_requests where id = ${id}`;
}

/** Returns the oldest unexpired request, including one whose synchroniser ended before it was done. */
export async function takeRequest(sql: Sql): Promise<TakenRequest | undefined> {
	const [row] = await sql<TakenRequest[]>`
		update crm_sync_requests set taken_at = clock_timestamp(), seen = null, total = null
		where id = (
			select id from crm_sync_requests where ended_at is null and wanted_until > clock_timestamp() order by id limit 1
		)
		returning id, kind, bitrix_id::float8 as bitrix_id, confirm_mass_delete, configuration`;
	return row;
}

export async function saveRequestProgress(sql: Sql, id: string, seen: number, total: number | null): Promise<void> {
	await sql`update crm_sync_requests set seen = ${seen}, total = ${total} where id = ${id}`;
}

export async function endRequest(sql: Sql, id: string, result: RequestResult): Promise<void> {
	await sql`
		update crm_sync_requests set ended_at = clock_timestamp(), result = ${JSON.stringify(result)}::text::jsonb
		where id = ${id}`;
}

/** Returns the number of requests that wait or are in progress. */
export async function countOpenRequests(sql: Sql): Promise<number> {
	const [row] = await sql<[{ count: number }]>`
		select count(*)::int as count from crm_sync_requests where ended_at is null and wanted_until > clock_timestamp()`;
	return row.count;
}
