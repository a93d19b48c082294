import type { Sql } from '@contacts/common/database/client.js';
import { isoTime } from '@contacts/common/database/iso-time.sql.js';

/** The operations that are not about one project. The database accepts no others. */
export const operations = [
	'subscription started',
	'subscription ended',
	'subscriptions import started',
	'subscriptions imported',
	'person exported',
	'person erased',
	'personal contacts pruned',
	'contacts import started',
	'contacts imported',
	'mass deletion confirmed',
	'new configuration confirmed',
] as const;

export type Operation = (typeof operations)[number];

/** Records an operation in the audit log. @throws the PostgreSQL error 23514 when the details take more than 16 KiB as JSON */
export async function recordOperation(sql: Sql, operation: Operation, details: object): Promise<void> {
	await sql`select record_operation(${operation}, ${JSON.stringify(details)}::text::jsonb)`;
}

interface AuditRow {
	details: Record<string, unknown>;
}

/** Changes of projects and keys, and operations, newest first. */
export function readAudit(sql: Sql, limit: number, project?: string): Promise<readonly AuditRow[]> {
	return sql<AuditRow[]>`
		select ${isoTime(sql, 'at')} as at, actor, role, action, project, key_id::float8 as key_id, details
		from audit_log
		${project === undefined ? sql`` : sql`where project = ${project}`}
		order by id desc limit ${limit}`;
}
