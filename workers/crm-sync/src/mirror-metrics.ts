import type { Database } from '@contacts/common/database/database.js';
import { gauge, lastKnown } from '@contacts/common/observability/metrics.js';
import type { Registry } from 'prom-client';
import { readFreshness, type SyncFreshness } from './sync.sql.js';

/** Exports the state of the mirror as metrics. An empty or old list looks like any other, so only metrics show it. */
export function measureMirror(registry: Registry, database: Database): void {
	/** Undefined while the database does not respond. All metrics share one query. */
	const freshness = lastKnown<SyncFreshness | undefined>(
		() =>
			database.query(readFreshness).then(
				([row]) => row,
				() => undefined,
			),
		undefined,
	);
	const add = (name: string, help: string, read: (state: SyncFreshness) => number) =>
		gauge(registry, name, help, async () => {
			const current = await freshness();
			return current === undefined ? Number.NaN : read(current);
		});
	add(
		'crm_last_success_timestamp_seconds',
		'When the last pass that found the mirror equal to the CRM began, as a Unix time; NaN when there was none.',
		({ synced_at }) => (synced_at === null ? Number.NaN : synced_at / 1000),
	);
	add('crm_blocked', '1 while something keeps the synchroniser from working, else 0.', ({ blocked }) =>
		Number(blocked),
	);
	add('crm_alarm', '1 while somebody has to look at a problem of the mirror, else 0.', ({ alarm }) => Number(alarm));
}
