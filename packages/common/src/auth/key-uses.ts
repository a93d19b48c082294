import type { Database } from '../database/database.js';

/** When keys were used, written in batches: a use costs no statement. */
export interface KeyUses {
	add(keyId: number): void;
	/** Writes what was noted since the last time. */
	flush(): Promise<void>;
	/** Ends the writing, after a last one. */
	stop(): Promise<void>;
}

/**
 * Notes uses in memory, the last of each key, and writes them every `interval` milliseconds. What can't be written is kept
 * for the next time, one entry for each key; no request ever waits for it.
 */
export function noteKeyUses(database: Database, now: () => number, interval = 30_000): KeyUses {
	let noted = new Map<number, number>();

	async function flush(): Promise<void> {
		if (noted.size === 0) return;
		const batch = noted;
		noted = new Map();
		const uses = JSON.stringify([...batch].map(([key_id, at]) => ({ key_id, at: new Date(at).toISOString() })));
		try {
			// Without the keys that were deleted meanwhile: one of them would fail the whole batch, every time.
			await database.query(
				(sql) => sql`
					insert into api_key_uses as stored (key_id, last_used_at)
					select k.id, use.at
					from json_to_recordset(${uses}::text::json) as use (key_id bigint, at timestamptz)
					join api_keys k on k.id = use.key_id
					order by k.id
					on conflict (key_id) do update set last_used_at = greatest(stored.last_used_at, excluded.last_used_at)`,
			);
		} catch {
			noted = new Map([...batch, ...noted]);
		}
	}

	const timer = setInterval(flush, interval);
	timer.unref();
	return {
		add: (keyId) => void noted.set(keyId, now()),
		flush,
		async stop() {
			clearInterval(timer);
			await flush();
		},
	};
}
