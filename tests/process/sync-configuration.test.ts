import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import type { RunningService } from '@contacts/testing/services.js';
import { type CommandOutcome, startCommand, startSynchroniser } from '@contacts/testing/synchroniser.js';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

let database: TestDatabase;
let standIn: StandIn;
/** The fields and the country that the mirror is first made with, and other ones. */
let first: Record<string, string>;
let other: Record<string, string>;
const running: RunningService[] = [];
const patient = { timeout: 60_000 };
// Each test starts several processes, one after the other.
vi.setConfig({ testTimeout: 240_000 });

beforeEach(async () => {
	database = await createTestDatabase();
	standIn = await startStandIn({
		plan: 'enterprise',
		fields: [
			{ name: 'UF_CRM_1', type: 'string' },
			{ name: 'UF_CRM_2', type: 'string' },
		],
	});
	for (let n = 1; n <= 200; n++)
		standIn.add({
			lastName: `Contact ${n}`,
			phones: [{ id: n, valueType: 'WORK', value: '8 (912) 345-67-89' }],
			uf: { UF_CRM_1: `one ${n}`, UF_CRM_2: `two ${n}` },
		});
	first = { BITRIX24_WEBHOOK_URL: standIn.webhookUrl, BITRIX24_UF_REASON: 'UF_CRM_1' };
	other = { ...first, BITRIX24_UF_REASON: 'UF_CRM_2', BITRIX24_DEFAULT_COUNTRY: 'RU' };
});
afterEach(async () => {
	await Promise.all(running.splice(0).map((service) => service.stop('SIGKILL')));
	await standIn?.close();
	await database?.drop();
});

async function start(env: Record<string, string>): Promise<RunningService> {
	const service = await startSynchroniser(database.url, env);
	running.push(service);
	return service;
}
const contacts = (args: string[], env: Record<string, string>): Promise<CommandOutcome> =>
	startCommand(database.url, ['sync', ...args], env).outcome;
const metric = async ({ url }: RunningService, name: string) =>
	new RegExp(`^${name} (\\S+)$`, 'm').exec(await (await fetch(`${url}/metrics`)).text())?.[1];

/** Counts contacts by the source of their reasons and phones. */
async function madeOf(): Promise<Record<string, number>> {
	const rows = await database.sql<{ kind: string; count: number }[]>`
		select coalesce(split_part(perplexity_reason, ' ', 1), 'none') || ' ' || coalesce(phone, 'none') as kind, count(*)::int as count
		from company_contacts group by 1`;
	return Object.fromEntries(rows.map(({ kind, count }) => [kind, count]));
}
const byFirst = { 'one none': 200 };
const byOther = { 'two +79123456789': 200 };

test('a pass that was killed halfway does not continue under another configuration', async () => {
	let pages = 0;
	standIn.onRequest(async ({ params }) => {
		if (params.filter?.['>id'] !== undefined && ++pages === 3) await killed.stop('SIGKILL');
	});
	const killed = await start(first);
	await vi.waitUntil(() => killed.hasExited, patient);
	expect((await database.sql`select from crm_sync_staging`).length).toBeGreaterThan(0);

	const refused = await start(other);
	await vi.waitUntil(() => refused.output().includes('made with another configuration'), patient);
	expect(await madeOf()).toEqual({});
	expect(await contacts(['--remap'], other)).toMatchObject({
		code: 0,
		out: expect.stringMatching(/^Full pass: 200 new/),
	});
	expect(await madeOf()).toEqual(byOther);
});

test('of two synchronisers with different configurations only the one that matches the mirror works, whichever restarts', async () => {
	const owner = await start(first);
	await vi.waitUntil(async () => (await madeOf())['one none'] === 200, patient);
	const refused = await start(other);
	await owner.stop();
	await vi.waitUntil(() => refused.output().includes('made with another configuration'), patient);
	const requests = standIn.requests.length;
	expect([await metric(refused, 'crm_synchroniser_working'), await metric(refused, 'crm_blocked')]).toEqual(['0', '1']);
	expect((await contacts(['status'], {})).out).toMatch(/^blocked by +configuration_differs$/m);
	expect(refused.output()).toContain('BITRIX24_DEFAULT_COUNTRY is not set there and RU here');
	expect(refused.output()).not.toContain(new URL(standIn.webhookUrl).pathname.split('/')[3]);
	expect(standIn.requests).toHaveLength(requests);

	standIn.add({ lastName: 'New', uf: { UF_CRM_1: 'one 201', UF_CRM_2: 'two 201' } });
	const back = await start(first);
	await vi.waitUntil(async () => (await madeOf())['one none'] === 201, patient);
	expect((await contacts(['status'], {})).out).not.toContain('blocked by');
	await back.stop();

	// No synchroniser has these values, so the command does the work. The refused one continues from there.
	expect(await contacts(['--once'], other)).toMatchObject({ code: 1, out: '' });
	expect(await madeOf()).toEqual({ 'one none': 201 });
	expect(await contacts(['--remap'], other)).toMatchObject({ code: 0 });
	await vi.waitUntil(async () => (await metric(refused, 'crm_synchroniser_working')) === '1', patient);
	expect(await madeOf()).toEqual({ ...byOther, 'two none': 1 });
});

test('a synchroniser that restarts with other values works once the operator accepts them', async () => {
	await (await start(first)).stop();
	await start(first).then(async (service) => {
		await vi.waitUntil(async () => (await madeOf())['one none'] === 200, patient);
		expect(await contacts(['--remap'], other)).toMatchObject({
			code: 1,
			error: expect.stringMatching(/^error: A synchroniser works with the configuration of the mirror: stop it/),
		});
		expect(await madeOf()).toEqual(byFirst);
		await service.stop();
	});
	await start(other);
	expect(await contacts(['--remap'], other)).toMatchObject({ code: 0 });
	expect(await madeOf()).toEqual(byOther);
	// Once the synchroniser has the lock, the request is its work.
	await expect
		.poll(() => contacts([], other), { timeout: 60_000 })
		.toMatchObject({
			code: 0,
			out: expect.stringMatching(/^Incremental pass/),
		});
});
