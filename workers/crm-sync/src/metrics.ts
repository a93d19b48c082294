import { counter, gauge } from '@contacts/common/observability/metrics.js';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Bitrix24Error } from './bitrix24/errors.js';
import type { Unmapped } from './mapping.js';
import { unreadBy } from './pass.js';

/** The synchroniser's own metrics. The metrics of the mirror are in `mirror-metrics.ts`. */
export function createSyncMetrics(registry: Registry, intervalMs: number) {
	const registers = [registry];
	gauge(registry, 'crm_pass_interval_seconds', 'The configured time between two passes.', () => intervalMs / 1000);
	const errors = new Counter({
		name: 'crm_errors_total',
		help: 'Error responses of the portal, and requests without a response.',
		labelNames: ['kind'],
		registers,
	});
	const unmapped = new Counter({
		name: 'crm_unmapped_values_total',
		help: 'Values of the portal that could not be mapped and were left out, or were too long and were cut.',
		labelNames: ['field'],
		registers,
	});
	const working = new Gauge({
		name: 'crm_synchroniser_working',
		help: '1 where this process synchronises, 0 where another does, or where the mirror has another configuration.',
		registers,
	});
	return {
		onPortalError: (error: Bitrix24Error) => errors.inc({ kind: error.kind }),
		onPass: counter(registry, 'crm_passes_total', 'Passes over the CRM, by outcome.', 'outcome', ['done', 'failed']),
		onUnread: counter(
			registry,
			'crm_unread_contacts_total',
			'Contacts that the portal did not return, or not completely, by the pass: what is stored of them stayed.',
			'pass',
			unreadBy,
		),
		onUnmapped: (field: Unmapped) => unmapped.inc({ field }),
		onWaiting: () => working.set(0),
		onWorking: () => working.set(1),
	};
}
