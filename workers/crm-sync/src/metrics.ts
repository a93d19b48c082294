import type { ContactColumn } from '@contacts/common/contacts/company-contact-columns.sql.js';
import type { Database } from '@contacts/common/database/database.js';
import { counter, gauge, lastKnown } from '@contacts/common/observability/metrics.js';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Bitrix24Error } from './bitrix24/errors.js';
import { describeAlarms } from './mirror/alarms.js';
import { runKinds } from './mirror/runs.sql.js';
import { readState, type SyncState } from './mirror/state.sql.js';

/** The metrics of this synchroniser. */
export function createSyncMetrics(registry: Registry, intervalMs: number) {
	const registers = [registry];
	gauge(registry, 'crm_sync_interval_seconds', 'The configured time between two sync runs.', () => intervalMs / 1000);
	const errors = new Counter({
		name: 'crm_errors_total',
		help: 'Error responses of the CRM, and requests without a response.',
		labelNames: ['kind'],
		registers,
	});
	const unmapped = new Counter({
		name: 'crm_unmapped_values_total',
		help: 'Values of the CRM that could not be mapped and were left out, or were too long and were cut.',
		labelNames: ['field'],
		registers,
	});
	const working = new Gauge({
		name: 'crm_synchroniser_working',
		help: '1 where this process synchronises, 0 where another does, or where the mirror has another configuration.',
		registers,
	});
	return {
		onCrmError: (error: Bitrix24Error) => errors.inc({ kind: error.kind }),
		onRun: counter(registry, 'crm_sync_runs_total', 'Sync runs, by outcome.', 'outcome', ['done', 'failed']),
		onUnread: counter(
			registry,
			'crm_unread_contacts_total',
			'Contacts that the CRM did not return, or not completely, by the kind of run: what is stored of them stayed.',
			'kind',
			runKinds,
		),
		onUnmapped: (field: ContactColumn) => unmapped.inc({ field }),
		onWaiting: () => working.set(0),
		onWorking: () => working.set(1),
	};
}

/** The metrics of the mirror. An empty or old list looks like any other, so only metrics show it. */
export function measureMirror(registry: Registry, database: Database): void {
	/** Undefined while the database does not respond. All metrics share one query. */
	const lastState = lastKnown<SyncState | undefined>(() => database.query(readState).catch(() => undefined), undefined);
	const add = (name: string, help: string, read: (state: SyncState) => number) =>
		gauge(registry, name, help, async () => {
			const state = await lastState();
			return state === undefined ? Number.NaN : read(state);
		});
	add(
		'crm_last_success_timestamp_seconds',
		'When the last run that found the mirror equal to the CRM began, as a Unix time; NaN when there was none.',
		({ last_success_at }) => (last_success_at ?? Number.NaN) / 1000,
	);
	add('crm_blocked', '1 while something keeps the synchroniser from working, else 0.', ({ blocked_by }) =>
		Number(blocked_by !== null),
	);
	add('crm_alarm', '1 while somebody has to look at a problem of the mirror, else 0.', (state) =>
		Number(describeAlarms(state).length > 0),
	);
}
