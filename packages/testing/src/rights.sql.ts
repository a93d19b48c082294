import type { Sql } from '@contacts/common/database/client.js';

interface RightsRow {
	role: string;
	/** The name of a table or sequence. For a function that runs with its owner's rights: `function` and its name. */
	table: string;
	/** Such as `select`, or `update (expires_at)` where the right is limited to that column. */
	rights: string[];
}

/**
 * What each role may do with each table and sequence of the schema, and which functions with their owner's rights it may call. Inherited
 * rights are included, superusers are not.
 */
export function readRights(sql: Sql, roleNames: readonly string[]): Promise<readonly RightsRow[]> {
	return sql<RightsRow[]>`
		with verbs (verb, place, has_columns) as (values
			('select', 1, true), ('insert', 2, true), ('update', 3, true), ('delete', 4, false),
			('truncate', 5, false), ('references', 6, true), ('trigger', 7, false)
		)
		select r.rolname as role, c.relname as "table", json_agg(granted.name order by granted.place, granted.name) as rights
		from pg_roles r
		cross join pg_class c
		cross join lateral (
			select verb, place from verbs where has_table_privilege(r.oid, c.oid, verb)
			union all
			select format('%s (%s)', verb, a.attname), place
			from verbs join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
			where has_columns and not has_table_privilege(r.oid, c.oid, verb)
			  and has_column_privilege(r.oid, c.oid, a.attnum, verb)
		) granted (name, place)
		where r.rolname in ${sql([...roleNames])} and not r.rolsuper
		  and c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'm', 'p', 'S')
		group by 1, 2
		union all
		select r.rolname, 'function ' || p.proname, json_build_array('execute')
		from pg_roles r cross join pg_proc p
		where r.rolname in ${sql([...roleNames])} and not r.rolsuper
		  and p.pronamespace = 'public'::regnamespace and p.prosecdef and has_function_privilege(r.oid, p.oid, 'execute')
		order by 1, 2`;
}
