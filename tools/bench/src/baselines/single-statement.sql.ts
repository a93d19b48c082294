import type { Sql } from '@contacts/common/database/client.js';
import { contact } from '../load/upserts.js';

/** One upsert in one statement, with named placeholders as pgbench expects them. */
export const singleStatement = `
	insert into personal_contacts as stored (chat_id, username, name, birth_date, project_id)
	select :chat_id::bigint, :username::text, :name::text, :birth_date::text::date, :project_id::bigint
	where not exists (
		select from direct_subscriptions
		where chat_id = :chat_id::bigint
		  and started_at <= now()
		  and (ended_at is null or ended_at > now())
	)
	on conflict (chat_id) do update set
		username = case when :has_username::boolean then excluded.username else stored.username end,
		name = case when :has_name::boolean then excluded.name else stored.name end,
		birth_date = case when :has_birth_date::boolean then excluded.birth_date else stored.birth_date end,
		project_id = excluded.project_id,
		updated_at = clock_timestamp()
	returning true as saved`;

/** All values except the chat. */
export const singleStatementValues = {
	...contact,
	project_id: 1,
	has_username: true,
	has_name: true,
	has_birth_date: true,
};

const names: string[] = [];
const positional = singleStatement.replace(/(?<!:):([a-z_]+)/g, (_, name: string) => {
	if (!names.includes(name)) names.push(name);
	return `$${names.indexOf(name) + 1}`;
});

/** The same statement for the driver, prepared once on each connection. */
export function runSingleStatement(sql: Sql, values: Record<string, string | number | boolean | null>) {
	return sql.unsafe<{ saved: true }[]>(
		positional,
		names.map((name) => values[name] ?? null),
		{ prepare: true },
	);
}
