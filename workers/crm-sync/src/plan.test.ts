import { expect, test } from 'vitest';
import type { MirrorConfiguration } from './mirror/configuration.js';
import { type Plan, planRun, type Situation } from './plan.js';

const [minute, hour, day] = [60_000, 3_600_000, 86_400_000];
const now = Date.UTC(2026, 0, 15);
const own: MirrorConfiguration = {
	portal: 'crm.example',
	webhook_user: 1,
	trouble_field: null,
	reason_field: null,
	trouble_options: [],
	default_country: null,
	mapping_version: 3,
};

/** A mirror that was found equal to the CRM an hour ago. */
const state = {
	configuration: own,
	categories: [0, 9],
	watermark: now - minute,
	last_full_at: now - hour,
	full_begun_at: null,
};
const usual: Situation = {
	...{ state, request: undefined, own, categories: [0, 9], now },
	...{ intervalMs: 5 * minute, incompleteAt: Number.NEGATIVE_INFINITY },
};
const unfinished = { ...state, full_begun_at: now - hour };
const overdue = { ...state, last_full_at: now - 25 * hour };

const changes: Plan = { kind: 'incremental', fromStart: false, reason: 'changes' };
const goesOn: Plan = { kind: 'full', fromStart: false, reason: 'unfinished' };
const begins = (reason: string): Plan => ({ kind: 'full', fromStart: true, reason });

test.each<[string, Partial<Situation>, Plan]>([
	['nothing is due', {}, changes],
	['a command requests a run', { request: 'incremental' }, changes],
	['a command requests a full run', { request: 'full' }, begins('requested')],
	['nothing was mirrored', { state: { ...state, configuration: null } }, begins('first run')],
	[
		'the webhook has another user',
		{ state: { ...state, configuration: { ...own, webhook_user: 2 } } },
		begins('another configuration'),
	],
	[
		'an earlier release mapped the contacts',
		{ state: { ...state, configuration: { ...own, mapping_version: 2 } } },
		begins('another configuration'),
	],
	['the CRM has one more category', { categories: [0, 9, 12] }, begins('a category that was not read')],
	['the CRM has one category less', { categories: [0] }, changes],
	['no full run was complete', { state: { ...state, watermark: null } }, begins('never complete')],
	['a full run is unfinished', { state: unfinished }, goesOn],
	['the first full run is unfinished', { state: { ...unfinished, watermark: null } }, goesOn],
	['a command requests a run while a full run is unfinished', { state: unfinished, request: 'incremental' }, goesOn],
	[
		'a command requests a full run while one is unfinished',
		{ state: unfinished, request: 'full' },
		begins('requested'),
	],
	[
		'a full run is unfinished for more than a day',
		{ state: { ...state, full_begun_at: now - day - 1 } },
		begins('unfinished for too long'),
	],
	[
		'an unfinished full run began in the future, before the clock was set back',
		{ state: { ...state, full_begun_at: now + day + 1 } },
		begins('unfinished for too long'),
	],
	[
		'a full run is unfinished, and the CRM has one more category',
		{ state: unfinished, categories: [0, 9, 12] },
		begins('a category that was not read'),
	],
	['the last full run is more than a day old', { state: overdue }, begins('due')],
	['no full run was found complete', { state: { ...state, last_full_at: null } }, begins('due')],
	['the last full run lies in the future', { state: { ...state, last_full_at: now + 2 * day } }, begins('due')],
	[
		'the next run is further from a day than this one',
		{ state: { ...state, last_full_at: now - day + minute } },
		begins('due'),
	],
	[
		'the next run is nearer to a day than this one',
		{ state: { ...state, last_full_at: now - day + 3 * minute } },
		changes,
	],
	[
		'each run is full with an interval of a day',
		{ intervalMs: day, state: { ...state, last_full_at: now - day + minute } },
		begins('due'),
	],
	['a full run is due that was incomplete half an hour ago', { state: overdue, incompleteAt: now - hour / 2 }, changes],
	[
		'a full run is due that was incomplete more than an hour ago',
		{ state: overdue, incompleteAt: now - hour - 1 },
		begins('due'),
	],
	[
		'a command requests a run while an incomplete full run waits to be repeated',
		{ state: overdue, incompleteAt: now - hour / 2, request: 'incremental' },
		begins('due'),
	],
	[
		'a full run was incomplete in the future, before the clock was set back',
		{ state: overdue, incompleteAt: now + day },
		begins('due'),
	],
])('the run when %s', (_, changed, plan) => {
	expect(planRun({ ...usual, ...changed })).toEqual(plan);
});
