import { pruneTombstones, type SaveResult } from '@contacts/common/contacts/save-company-contacts.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { isoTime } from '@contacts/common/database/iso-time.sql.js';
import { pruneUnreadablePhones } from './unreadable-phones.sql.js';

export const runKinds = ['full', 'incremental', 'events'] as const;
export type RunKind = (typeof runKinds)[number];

/** What a run has done. */
export interface RunCounts extends SaveResult {
	seen: number;
	deleted: number;
	/** Contacts that the CRM did not return, or not completely. */
	unread: number;
	requests: number;
}

export interface RunRow extends RunCounts {
	id: number;
	kind: RunKind;
	/** RFC 3339. */
	begun_at: string;
	ended_at: string | null;
	outcome: string | null;
	total: number | null;
}

export async function beginRun(sql: Sql, kind: RunKind, requestedAt: string | null): Promise<number> {
	const [row] = await sql<[{ id: number }]>`
		insert into crm_sync_runs (kind, requested_at) values (${kind}, ${requestedAt}::text::timestamptz)
		returning id::float8 as id`;
	return row.id;
}

export async function saveProgress(sql: Sql, id: number, seen: number, total: number | undefined): Promise<void> {
	await sql`update crm_sync_runs set seen = ${seen}, total = ${total ?? null} where id = ${id}`;
}

/** @param run its kind, too: what the CRM tells may have made it another one */
export async function endRun(sql: Sql, id: number, outcome: string, run: RunCounts & { kind: RunKind }): Promise<void> {
	await sql`
		update crm_sync_runs set ended_at = clock_timestamp(), outcome = ${outcome}, kind = ${run.kind}, seen = ${run.seen},
			created = ${run.created}, changed = ${run.changed}, deleted = ${run.deleted},
			unread = ${run.unread}, requests = ${run.requests}
		where id = ${id}`;
}

const runColumns = (sql: Sql) => {
	const counted = ['id', 'total', 'seen', 'created', 'changed', 'deleted', 'unread', 'requests'];
	return sql`
		kind, outcome, ${isoTime(sql, 'begun_at')} as begun_at, ${isoTime(sql, 'ended_at')} as ended_at,
		${sql.unsafe(counted.map((name) => `${name}::float8 as ${name}`).join())}`;
};

/** Returns the newest runs. */
export function readRuns(sql: Sql, limit: number): Promise<readonly RunRow[]> {
	return sql<RunRow[]>`select ${runColumns(sql)} from crm_sync_runs order by id desc limit ${limit}`;
}

/** Returns the run that serves a request: the first one that has taken this or a later request. */
export async function readServingRun(sql: Sql, requestedAt: string): Promise<RunRow | undefined> {
	const [run] = await sql<RunRow[]>`
		select ${runColumns(sql)} from crm_sync_runs
		where requested_at >= ${requestedAt}::text::timestamptz order by id limit 1`;
	return run;
}

/** A status shows the newest few runs; an investigation looks back some days. */
const keptRuns = { days: 30, max: 10_000 };

/** Deletes old runs and expired tombstones. Cheap enough for each run. */
export async function prune(sql: Sql): Promise<void> {
	await pruneTombstones(sql);
	await pruneUnreadablePhones(sql);
	await sql`
		delete from crm_sync_runs
		where id <= (select id from crm_sync_runs order by id desc offset ${keptRuns.max} limit 1)
		   or begun_at < clock_timestamp() - make_interval(days => ${keptRuns.days})`;
}

/** Closes the runs of a crashed synchroniser. The holder of the lock knows that no other run is in progress. */
export async function closeInterruptedRuns(sql: Sql): Promise<void> {
	await sql`update crm_sync_runs set ended_at = clock_timestamp(), outcome = 'interrupted' where ended_at is null`;
}
