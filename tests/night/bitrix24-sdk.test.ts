import { execFile, execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { makeCertificate } from '@contacts/testing/certificate.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

// The stand-in and our client have the same authors. The official SDK is installed here alone, and nothing that is shipped needs it.
const sdk = '@bitrix24/b24jssdk@2.2.0';

/** Makes each call, and prints what the SDK returned: data, or the codes of its errors. */
const program = `import { B24Hook } from '@bitrix24/b24jssdk';

const b24 = B24Hook.fromWebhookUrl(process.argv[2]);
const { call, callList, fetchList, batch, batchByChunk } = b24.actions.v2;
const contacts = { entityTypeId: 3 };
const get = (id) => ['crm.item.get', { ...contacts, id }];
const ids = (items) => items.map(({ id }) => id);
const summary = (items) => [items.length, items[0]?.id, items.at(-1)?.id];

async function result(response) {
	if (!response.isSuccess) return { errors: [...response.errors.values()].map(({ code }) => code) };
	return response.getData();
}
const one = async (method, params) => {
	const data = await result(await call.make({ method, params: { ...contacts, ...params } }));
	return data.errors ? data : data.result;
};
const many = async (calls, isHaltOnError = true) => result(await batch.make({ calls, options: { isHaltOnError } }));

const list = { method: 'crm.item.list', params: contacts, idKey: 'id', customKeyForResult: 'items' };
const calls = {
	page: async () => summary((await one('crm.item.list', { start: 0 })).items),
	nextPage: async () => summary((await one('crm.item.list', { start: 100, order: { id: 'ASC' } })).items),
	filter: async () => ids((await one('crm.item.list', { filter: { '>id': 115 }, select: ['id'] })).items),
	callList: async () => summary(await result(await callList.make(list))),
	async fetchList() {
		const chunks = [];
		for await (const chunk of fetchList.make(list)) chunks.push(chunk.length);
		return chunks;
	},
	item: async () => (await one('crm.item.get', { id: 7 })).item,
	noItem: () => one('crm.item.get', { id: 4711 }),
	fields: async () => Object.keys((await one('crm.item.fields', {})).fields),
	named: async () => Object.entries(await many({ a: get(1), b: get(2) })).map(([name, { item }]) => [name, item.id]),
	listed: async () => (await many([get(3), get(4)])).map(({ item }) => item.id),
	mixed: () => many({ a: get(1), none: get(4711), b: get(2) }, false),
	halted: () => many([get(4711), get(4712), get(1)]),
	nested: async () =>
		ids((await many({ rows: ['crm.item.list', { ...contacts, filter: { '>id': 100 }, select: ['id'] }] })).rows.items),
	reference: async () =>
		(await many({ rows: ['crm.item.list', { ...contacts, filter: { '>id': 50 } }], one: get('$result[rows][items][2][id]') }))
			.one.item.id,
	chunks: async () =>
		summary((await result(await batchByChunk.make({ calls: Array.from({ length: 60 }, (_, n) => get(n + 1)) }))).map(({ item }) => item)),
	profile: () => one('profile', {}),
	serverTime: () => one('server.time', {}),
	idList: () => one('crm.item.list', { filter: { '@id': [1, 2] } }),
	byName: () => one('crm.item.list', { order: { lastName: 'ASC' } }),
};
const results = {};
for (const [name, make] of Object.entries(calls))
	results[name] = await make().catch((error) => ({ errors: [error.code ?? String(error)] }));
process.stdout.write(JSON.stringify(results));
process.exit();
`;

const folder = sharedFolder();
let standIn: StandIn;
let results: Record<string, unknown>;

beforeAll(async () => {
	writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}');
	writeFileSync(join(folder, 'main.js'), program);
	const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts', sdk];
	execFileSync('npm', install, { cwd: folder, stdio: 'ignore' });
	const { key, certificate } = makeCertificate(folder, 'IP:127.0.0.1');
	const tls = { key: readFileSync(key, 'utf8'), cert: readFileSync(certificate, 'utf8') };
	standIn = await startStandIn({ tls });
	for (let n = 1; n <= 119; n++)
		standIn.add({ lastName: `Contact ${n}`, companyIds: [n], phones: [{ id: n, valueType: 'WORK', value: '+12' }] });
	const environment = { PATH: process.env.PATH, HOME: folder, NODE_EXTRA_CA_CERTS: certificate };
	const { stdout } = await promisify(execFile)(process.execPath, ['main.js', standIn.webhookUrl], {
		cwd: folder,
		env: environment,
	});
	results = JSON.parse(stdout.slice(stdout.indexOf('{')));
}, 300_000);
afterAll(() => standIn?.close());

describe('the official SDK reads from the stand-in of the CRM', () => {
	const from = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, n) => first + n);
	test.each<[string, unknown]>([
		['page', [50, 1, 50]],
		['nextPage', [19, 101, 119]],
		['filter', from(116, 119)],
		['callList', [119, 1, 119]],
		['fetchList', [50, 50, 19]],
		['item', expect.objectContaining({ id: 7, lastName: 'Contact 7', companyIds: [7] })],
		['fields', expect.arrayContaining(['id', 'name', 'companyIds', 'fm'])],
		[
			'named',
			[
				['a', 1],
				['b', 2],
			],
		],
		['listed', [3, 4]],
		['nested', from(101, 119)],
		['reference', 53],
		['chunks', [60, 1, 60]],
	])('%s', (name, expected) => {
		expect(results[name]).toEqual(expected);
	});
});

describe('the official SDK receives a documented error, and never other rows, for', () => {
	test.each<[string, string[]]>([
		['noItem', ['NOT_FOUND']],
		['mixed', ['NOT_FOUND']],
		['halted', ['NOT_FOUND']],
		['profile', ['ERROR_METHOD_NOT_FOUND']],
		['serverTime', ['ERROR_METHOD_NOT_FOUND']],
		['idList', ['INVALID_ARG_VALUE']],
		['byName', ['INVALID_ARG_VALUE']],
	])('%s', (name, errors) => {
		expect(results[name]).toEqual({ errors });
	});
});
