import type { Database } from '@contacts/common/database/database.js';
import { gauge, lastKnown } from '@contacts/common/observability/metrics.js';
import type { Registry } from 'prom-client';

/** Exports how old the mirror is. An empty or old list looks like any other, so only a metric shows it. */
export function measureSyncFreshness(registry: Registry, database: Database): void {
	const lastSuccess = lastKnown<number | null>(
		() =>
			database
				.query(
					(sql) => sql<[{ at: number | null }]>`
					select extract(epoch from last_success_at)::float8 as at from crm_sync_state`,
				)
				.then(
					([{ at }]) => at,
					() => null,
				),
		null,
	);
	gauge(
		registry,
		'crm_last_success_timestamp_seconds',
		'When the last sync run that found the mirror equal to the CRM began, as a Unix time; NaN when there was none.',
		async () => (await lastSuccess()) ?? Number.NaN,
	);
}
