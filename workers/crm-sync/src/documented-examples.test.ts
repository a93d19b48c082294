import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { steppedClock } from '@contacts/testing/stepped-clock.js';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createCrmClient, policies } from './bitrix24/client.js';
import type { FieldCodes } from './bitrix24/contact.js';
import { createCrm } from './bitrix24/crm.js';
import { mapContact } from './mapping.js';

// The shapes of the documentation's examples, with values of our own: what the stand-in can't show, because it has the same
// authors as the client.

const time = {
	start: 1_724_916_859,
	finish: 1_724_916_859.47,
	duration: 0.05,
	processing: 0,
	date_start: '2024-08-29T10:34:19+02:00',
	date_finish: '2024-08-29T10:34:19+02:00',
	operating: 0,
};

/** The documented fields of a contact that the mirror does not read are here to show that they do no harm. */
const contact = {
	id: 204,
	createdTime: '2024-07-22T18:00:08+02:00',
	updatedTime: '2024-07-22T18:00:08+02:00',
	dateModifyShort: null,
	assignedById: 6,
	opened: 'Y',
	companyId: 41,
	companyIds: [41, 17],
	leadId: 12,
	categoryId: 0,
	name: 'Lena',
	secondName: null,
	lastName: 'Brandt',
	birthdate: '1990-01-01T02:00:00+02:00',
	hasPhone: 'Y',
	hasEmail: 'Y',
	phoneWork: '+49 30 5550101',
	phoneMobile: '',
	fm: [
		{ id: 451, typeId: 'PHONE', valueType: 'WORK', value: '+49 30 5550101' },
		{ id: 452, typeId: 'EMAIL', valueType: 'WORK', value: 'lena@example.com' },
	],
	utmSource: null,
	observers: [],
	entityTypeId: 3,
};

const row = {
	bitrix_id: 204,
	name: 'Lena Brandt',
	phone: '+49305550101',
	company_ids: [41, 17],
	assigned_by_id: 6,
	trouble_contact: false,
	perplexity_reason: null,
};

/** The keys of the commands of a batch. */
type Respond = (keys: string[]) => unknown;

/** A CRM that responds to each method with a body. */
async function crmWith(bodies: Record<string, unknown>, codes: Partial<FieldCodes> = {}, status = 200) {
	const server = createServer(async (request, response) => {
		const chunks: Buffer[] = [];
		for await (const chunk of request) chunks.push(chunk as Buffer);
		const { cmd = {} } = JSON.parse(Buffer.concat(chunks).toString()) as { cmd?: object };
		const body = bodies[/([^/]+)\.json$/.exec(request.url ?? '')?.[1] ?? ''];
		response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' });
		response.end(JSON.stringify(typeof body === 'function' ? (body as Respond)(Object.keys(cmd)) : body));
	}).listen(0, '127.0.0.1');
	onTestFinished(() => {
		server.closeAllConnections();
		server.close();
	});
	await once(server, 'listening');
	const webhookUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/rest/1/secret/`;
	const client = createCrmClient({ webhookUrl, policy: policies.standard, clock: steppedClock() });
	return createCrm(client, { trouble: undefined, reason: undefined, ...codes });
}

/** A batch in which each command returns this. */
const batchOf =
	(result: unknown): Respond =>
	(keys) => ({
		result: {
			result: Object.fromEntries(keys.map((key) => [key, result])),
			result_error: [],
			result_total: [],
			result_next: [],
			result_time: Object.fromEntries(keys.map((key) => [key, time])),
		},
		time,
	});

const refusedBatch: Respond = (keys) => ({
	result: {
		result: [],
		result_error: Object.fromEntries(keys.map((key) => [key, { error: 'insufficient_scope', error_description: '' }])),
		result_total: [],
		result_next: [],
		result_time: [],
	},
	time,
});

const options = { country: undefined, troubleOptions: new Set<string>() };

test('a page of the list, with the same contact from a batch, becomes a row', async () => {
	const crm = await crmWith({
		'crm.item.list': { result: { items: [contact] }, total: 0, time },
		batch: batchOf({ item: contact }),
	});
	const page = await crm.page({ after: 0 });
	expect(page).toMatchObject({ last: 204, at: Date.UTC(2024, 7, 29, 8, 34, 19) });
	expect(page.unread.size).toBe(0);
	expect(page.contacts.map((each) => mapContact(each, crm.fields(), options).contact)).toEqual([row]);
});

test('a list with a total is counted', async () => {
	const crm = await crmWith({
		'crm.item.list': { result: { items: [{ id: 204 }] }, next: 50, total: 2_387_743, time },
	});
	expect(await crm.count()).toMatchObject({ total: 2_387_743 });
});

test('a list that is sorted by name, as in the example, is no page', async () => {
	const items = [253, 255, 252, 254].map((id) => ({ ...contact, id }));
	const crm = await crmWith({ 'crm.item.list': { result: { items }, total: 4, time } });
	await expect(crm.page({ after: 0 })).rejects.toMatchObject({ code: 'rows_out_of_order' });
});

test('an item that is shortened, as the examples are, is unread, and nothing of the contact is changed', async () => {
	const shortened = { ...contact, companyId: 0, companyIds: undefined, assignedById: undefined };
	const crm = await crmWith({ batch: batchOf({ item: shortened }) });
	for await (const { contacts, deleted, unread } of crm.lookUp([204], { waits: true })) {
		expect([contacts, deleted]).toEqual([[], []]);
		expect(unread).toEqual(new Map([[204, 'no_companyIds_assignedById']]));
	}
});

test('categories without isSystem, in any order, are all mirrored', async () => {
	const categories = [9, 10, 0].map((id) => ({
		id,
		name: `Funnel ${id}`,
		sort: 200,
		entityTypeId: 3,
		isDefault: id === 0 ? 'Y' : 'N',
		...(id > 0 ? { originId: '', originatorId: '' } : {}),
	}));
	const crm = await crmWith({ 'crm.category.list': { result: { categories }, total: 3, time } });
	await crm.readCategories({ waits: true });
	expect(crm.categories()).toEqual({ ordinary: new Set([0, 9, 10]), system: new Set() });
});

describe('errors', () => {
	test('of a batch are read where the empty maps are lists', async () => {
		const crm = await crmWith({ batch: refusedBatch });
		const read = async () => {
			for await (const { deleted } of crm.lookUp([1, 2], { waits: true })) expect(deleted).toEqual([]);
		};
		await expect(read()).rejects.toMatchObject({ code: 'insufficient_scope', kind: 'stop' });
	});

	test.each([
		[503, 'QUERY_LIMIT_EXCEEDED', 'slow_down'],
		[429, 'OPERATION_TIME_LIMIT', 'pause'],
		[500, 'INTERNAL_SERVER_ERROR', 'retry'],
		[500, 'ERROR_UNEXPECTED_ANSWER', 'retry'],
		[401, 'NO_AUTH_FOUND', 'stop'],
		[401, 'INVALID_REQUEST', 'stop'],
		[401, 'OVERLOAD_LIMIT', 'stop'],
		[401, 'INVALID_CREDENTIALS', 'stop'],
		[401, 'expired_token', 'stop'],
		[401, 'insufficient_scope', 'stop'],
		[401, 'user_access_error', 'stop'],
		[401, 'ACCESS_DENIED', 'access_denied'],
		[403, 'PORTAL_DELETED', 'stop'],
		[403, 'allowed_only_intranet_user', 'stop'],
		[404, 'ERROR_METHOD_NOT_FOUND', 'stop'],
		[400, 'INVALID_ARG_VALUE', 'stop'],
	])('%d %s is of the kind %s', async (status, error, kind) => {
		const crm = await crmWith({ 'crm.item.list': { error, error_description: 'Text for people' } }, {}, status);
		await expect(crm.page({ after: 0 })).rejects.toMatchObject({ code: error, kind });
	});
});

describe('custom fields', () => {
	const field = (type: string, more: object = {}) => ({
		type,
		isRequired: false,
		isReadOnly: false,
		isImmutable: false,
		isMultiple: false,
		isDynamic: true,
		title: `Custom field (${type})`,
		settings: { DEFAULT_VALUE: '' },
		upperName: `UF_CRM_${type.toUpperCase()}`,
		...more,
	});
	const items = [
		{ ID: '79', VALUE: 'Price' },
		{ ID: '81', VALUE: 'Delivery' },
	];
	const fields = {
		ufCrm_string: field('string'),
		ufCrm_enumeration: field('enumeration', { items }),
		ufCrm_url: field('url', { isMultiple: true }),
		ufCrm_boolean: field('boolean'),
		ufCrm_double: field('double'),
	};
	const values = {
		ufCrm_string: 'Late twice',
		ufCrm_enumeration: 81,
		ufCrm_url: ['example.com', 'second.example.com'],
		ufCrm_boolean: 'Y',
		ufCrm_double: 9999.9,
	};

	async function mapped(codes: Partial<FieldCodes>) {
		const bodies = {
			'crm.item.fields': { result: { fields }, time },
			batch: batchOf({ item: { ...contact, ...values } }),
		};
		const crm = await crmWith(bodies, codes);
		await crm.readFields();
		for await (const { contacts } of crm.lookUp([204], { waits: true }))
			return contacts.map((each) => mapContact(each, crm.fields(), options).contact)[0];
		return undefined;
	}

	test.each([
		['STRING', 'Late twice'],
		['ENUMERATION', 'Delivery'],
		['URL', 'example.com; second.example.com'],
		['DOUBLE', '9999.9'],
	])('%s gives a reason', async (type, reason) => {
		expect(await mapped({ reason: `UF_CRM_${type}` })).toEqual({ ...row, perplexity_reason: reason });
	});

	test('BOOLEAN gives the flag', async () => {
		expect(await mapped({ trouble: 'UF_CRM_BOOLEAN' })).toEqual({ ...row, trouble_contact: true });
	});
});
