import type { Bitrix24Error } from '@contacts/bitrix24/errors.js';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Unmapped } from './mapping.js';
import { type UnreadBy, unreadBy } from './pass.js';

/** The synchroniser's own metrics. The metrics of the mirror are in `sync-freshness.ts`. */
export function createSyncMetrics(registry: Registry) {
	const registers = [registry];
	const errors = new Counter({
		name: 'crm_errors_total',
		help: 'Error responses of the portal, and requests without a response.',
		labelNames: ['kind'],
		registers,
	});
	const unmapped = new Counter({
		name: 'crm_unmapped_values_total',
		help: 'Values of the portal that could not be mapped and were left out.',
		labelNames: ['field'],
		registers,
	});
	const unread = new Counter({
		name: 'crm_unread_contacts_total',
		help: 'Contacts that the portal did not return, or not completely, by the pass: what is stored of them stayed.',
		labelNames: ['pass'],
		registers,
	});
	for (const pass of unreadBy) unread.inc({ pass }, 0);
	const passes = new Counter({
		name: 'crm_passes_total',
		help: 'Passes over the CRM, by outcome.',
		labelNames: ['outcome'],
		registers,
	});
	for (const outcome of ['done', 'failed']) passes.inc({ outcome }, 0);
	const working = new Gauge({
		name: 'crm_synchroniser_working',
		help: '1 where this process synchronises, 0 where another does, or where the mirror has another configuration.',
		registers,
	});
	return {
		onPortalError: (error: Bitrix24Error) => errors.inc({ kind: error.kind }),
		onPass: (outcome: 'done' | 'failed') => passes.inc({ outcome }),
		onUnread: (pass: UnreadBy, contacts: number) => unread.inc({ pass }, contacts),
		onUnmapped: (field: Unmapped) => unmapped.inc({ field }),
		onWaiting: () => working.set(0),
		onWorking: () => working.set(1),
	};
}
