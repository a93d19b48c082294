import { createCrmClient, policies } from '@contacts/crm-sync/bitrix24/client.js';
import { createCrm } from '@contacts/crm-sync/bitrix24/crm.js';
import { type StandIn, type StandInOptions, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { steppedClock } from '@contacts/testing/stepped-clock.js';
import { expect, onTestFinished, test } from 'vitest';
import { type Assumption, examineAssumptions } from './assumptions.js';

const reasonField = 'UF_CRM_1700000000001';

/** Examines a CRM with 60 contacts that is as the mirror takes it to be, unless `change` makes it different. */
async function examine(change: (standIn: StandIn) => void = () => undefined, options: StandInOptions = {}, waitMs = 0) {
	const standIn = await startStandIn({ fields: [{ name: reasonField, type: 'string' }], ...options });
	onTestFinished(() => standIn.close());
	for (let n = 1; n <= 60; n++)
		standIn.add({
			lastName: `Canary ${n}`,
			companyIds: n % 2 ? [27, 31] : [],
			phones: n % 3 ? [{ id: n, valueType: 'WORK', value: '+442079460101' }] : [],
			uf: { [reasonField]: 'canary' },
		});
	change(standIn);
	const clock = steppedClock();
	standIn.onRequest(({ method }) => {
		if (method === 'batch') clock.advance(waitMs);
	});
	const client = createCrmClient({ webhookUrl: standIn.webhookUrl, policy: policies.standard, clock });
	const crm = createCrm(client, { trouble: undefined, reason: reasonField });
	await crm.readFields();
	await crm.readCategories({ waits: false });
	return examineAssumptions(client, crm, clock);
}

const list = { method: 'crm.item.list', inBatch: false };
const get = { method: 'crm.item.get', inBatch: true };
const inState = (assumptions: Assumption[], state: Assumption['state']) =>
	assumptions.filter((each) => each.state === state).map(({ text }) => text);

test('a CRM that is as it is taken to be shows all but what only a change could show, without data of a person', async () => {
	const assumptions = await examine();
	expect(inState(assumptions, 'differs')).toEqual([]);
	expect(inState(assumptions, 'not seen')).toEqual(['a change moves `updatedTime`']);
	expect(JSON.stringify(assumptions)).not.toMatch(/canary|442079/i);
});

test('what no contact shows is not seen', async () => {
	const assumptions = await examine((standIn) => standIn.contacts.clear());
	expect(inState(assumptions, 'differs')).toEqual([]);
	expect(inState(assumptions, 'holds')).toEqual([
		'only `NOT_FOUND` says that a contact is deleted',
		"`crm.category.list` has all categories that the webhook's user may read",
		'every response has `time.date_start`',
		'a batch of 50 contacts ends within 60 seconds',
		'a method may work for 480 seconds in ten minutes',
		'the custom fields are each a text, a number, yes or no, a link or a list',
	]);
});

test.each<[string, (standIn: StandIn) => void, StandInOptions?, number?]>([
	[
		'`crm.item.get` returns all of `fm` and `companyIds`',
		({ faults }) => faults.always({ kind: 'with-fields', values: { companyIds: undefined } }, get),
	],
	[
		'`fm` and `companyIds` agree with `hasPhone` and `companyId`',
		(standIn) => standIn.update(3, { raw: { hasPhone: 'Y' } }),
	],
	[
		'a list that was complete for the compared contacts is complete for all',
		() => undefined,
		{ lists: { companyIds: 'first' } },
	],
	['`companyId` is the primary company', (standIn) => standIn.update(5, { raw: { companyId: 31 } })],
	[
		'rows come by ID, and only an empty page is the end',
		// The contact 60 has neither phones nor companies.
		({ faults }) => faults.always({ kind: 'with-fields', values: { id: 60 } }, list),
	],
	[
		'only `NOT_FOUND` says that a contact is deleted',
		({ faults }) =>
			faults.always(
				{ kind: 'error', code: 'GONE' },
				{ ...get, when: ({ params }) => Number(params.id) === 2_147_483_647 },
			),
	],
	[
		"the filter `'@categoryId': [0, …]` leaves out all other categories",
		({ faults }) => faults.always({ kind: 'with-fields', values: { categoryId: 7 } }, list),
	],
	[
		"`crm.category.list` has all categories that the webhook's user may read",
		({ faults }) => faults.always({ kind: 'error', code: 'ACCESS_DENIED' }, { method: 'crm.category.list' }),
	],
	['every response has `time.date_start`', ({ faults }) => faults.always({ kind: 'without-time' }, list)],
	[
		'the filter `>=updatedTime` obeys the offset of a time',
		({ faults }) => faults.next({ kind: 'empty-list' }, { method: 'crm.item.list', inBatch: true }),
	],
	['a batch of 50 contacts ends within 60 seconds', () => undefined, {}, 61_000],
	[
		'a method may work for 480 seconds in ten minutes',
		() => undefined,
		{ operatingSecondsPerCall: { 'crm.item.list': 481 } },
	],
])('a CRM that differs is told: %s', async (text, change, options, waitMs) => {
	expect(inState(await examine(change, options, waitMs), 'differs')).toEqual([text]);
});

test.each(['INVALID_CREDENTIALS', 'OPERATION_TIME_LIMIT'])(
	'a CRM that refuses to return contacts, with %s, shows nothing',
	async (code) => {
		const refuse = ({ faults }: StandIn) => faults.always({ kind: 'error', code }, get);
		await expect(examine(refuse)).rejects.toMatchObject({ code });
	},
);
