/**
 * Which server responds, as an SQL expression: its history, and when it was started. Another text means that what was read
 * before may be missing here, whatever its version. Null on a standby, which may be behind.
 */
export const serverIdentity = `
	case when not pg_is_in_recovery() then
		concat_ws(' ', public.database_history(), extract(epoch from pg_postmaster_start_time()))
	end`;

/** What a program watches besides the server. Its role must be allowed to read it. */
export type Watched = 'keys' | 'contacts';

// Not by joins: PostgreSQL, which does not know that these tables have one row, would expect a billion rows, and compile the plan.
const columns: Record<Watched, string> = {
	keys: '(select version::text from public.key_ring_version) as keys',
	contacts: `(
		select json_build_object(
			'epoch', epoch,
			'version', version,
			'pruned', pruned_version,
			'syncedAt', (select extract(epoch from last_success_at) * 1000 from public.crm_sync_state)
		)
		from public.company_contacts_version
	) as contacts`,
};

/** The state of the company contacts. */
export interface ContactsState {
	/** Versions can be compared only within one epoch. */
	epoch: string;
	/** Every change of a contact increases it. */
	version: number;
	/** Tombstones up to this version may be deleted. */
	pruned: number;
	/** When the mirror was last found equal to the CRM, in milliseconds since the epoch; null if never. */
	syncedAt: number | null;
}

export interface StateRow {
	/** See `serverIdentity`. */
	server: string | null;
	readOnly: boolean;
	/** The version that every change of a project or key increases. Only if watched. */
	keys?: string;
	/** Only if watched. */
	contacts?: ContactsState;
}

/** The statement of the poll. All of it is one snapshot. */
export function stateStatement(watched: readonly Watched[]): string {
	// A database without tables fails at the first of them, and not at a function.
	const all = [
		...watched.map((each) => columns[each]),
		`${serverIdentity} as server`,
		`current_setting('transaction_read_only')::boolean as "readOnly"`,
	];
	return `select ${all.join(', ')}`;
}
