/**
 * Which server responds, as an SQL expression: its history, and when it was started. Another text means that what was read
 * before may be missing here, whatever its version. Null on a standby, which may be behind.
 */
export const serverIdentity = `
	case when not pg_is_in_recovery() then
		concat_ws(' ', public.database_history(), extract(epoch from pg_postmaster_start_time()))
	end`;

export interface ServerRow {
	/** See `serverIdentity`. */
	server: string | null;
	readOnly: boolean;
}

/**
 * The statement of the poll. All of it is one snapshot.
 *
 * @param watched columns, such as `(select version from public.some_table) as name`. Not by joins: PostgreSQL, which does not know
 *   that such a table has one row, would expect a billion rows, and compile the plan
 */
export function stateStatement(watched: readonly string[]): string {
	// A database without tables fails at the first of them, and not at a function.
	const all = [
		...watched,
		`${serverIdentity} as server`,
		`current_setting('transaction_read_only')::boolean as "readOnly"`,
	];
	return `select ${all.join(', ')}`;
}
