import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { type StandIn, startStandIn } from '@contacts/bitrix24-stand-in';
import { urlAs } from '@contacts/common/database/roles.js';
import { createTestDatabase, rolePassword, type TestDatabase } from '@contacts/common/testing/database.js';
import { openSession } from '@contacts/company-contacts/sync/session.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const command = fileURLToPath(new URL('../../tools/contacts/dist/main.js', import.meta.url));
let database: TestDatabase;
let standIn: StandIn;

beforeAll(async () => {
	database = await createTestDatabase();
	standIn = await startStandIn({ plan: 'enterprise' });
	for (let n = 1; n <= 120; n++) standIn.add({ lastName: `Contact ${n}`, companyIds: [n] });
});
afterAll(async () => {
	await standIn?.close();
	await database?.drop();
});

/** Runs `contacts` as the operator would, with the operator's database role. */
async function contacts(
	args: string[],
	env: Record<string, string> = {},
): Promise<{ code: number; out: string; error: string }> {
	const child = spawn(process.execPath, [command, ...args], {
		env: {
			PATH: process.env.PATH,
			DATABASE_URL: urlAs(database.url, 'operator', rolePassword),
			BITRIX24_WEBHOOK_URL: standIn.webhookUrl,
			BITRIX24_PLAN: 'enterprise',
			...env,
		},
		stdio: ['ignore', 'pipe', 'pipe'],
	});
	const [out, error, [code]] = await Promise.all([child.stdout.toArray(), child.stderr.toArray(), once(child, 'exit')]);
	return { code, out: out.join(''), error: error.join('') };
}
const count = async () => (await database.sql`select from company_contacts`).length;

test('sync --dry-run tells, sync --once does, and again changes nothing', async () => {
	expect(await contacts(['sync', '--dry-run'])).toMatchObject({ code: 0, out: expect.stringContaining('120 new') });
	expect(await count()).toBe(0);
	expect(await contacts(['sync', '--once'])).toMatchObject({
		code: 0,
		out: expect.stringMatching(/^Full pass: 120 new, 0 changed, 0 deleted/),
	});
	expect(await count()).toBe(120);
	const again = await contacts(['sync', '--once', '--full', '--json']);
	expect(JSON.parse(again.out)).toMatchObject({ kind: 'full', seen: 120, created: 0, changed: 0, deleted: 0 });
	expect(await contacts(['sync', '--once'])).toMatchObject({ out: expect.stringMatching(/^Incremental pass: 0 new/) });
});

test('sync --contact reads one again', async () => {
	const [id = 0] = standIn.contacts.keys();
	standIn.update(id, { companyIds: [4711] }, { touch: false });
	expect(await contacts(['sync', '--contact', String(id)])).toMatchObject({
		code: 0,
		out: expect.stringContaining('1 changed'),
	});
});

test('sync status tells the last success, the runs, and what blocks it until when', async () => {
	standIn.faults.next({ kind: 'error', code: 'OVERLOAD_LIMIT' });
	expect(await contacts(['sync', '--once'])).toMatchObject({
		code: 1,
		error: expect.stringMatching(/^error: .*OVERLOAD_LIMIT: .*support.*\n$/),
	});
	const { out } = await contacts(['sync', 'status']);
	expect(out).toMatch(/^last success +\d{4}-/m);
	expect(out).toMatch(/^blocked by +OVERLOAD_LIMIT, until \d{4}-/m);
	expect(out).toMatch(/^full .* done +120 /m);
	const { state, runs } = JSON.parse((await contacts(['sync', 'status', '--json'])).out);
	expect([state.blocked_by, runs.length]).toEqual(['OVERLOAD_LIMIT', 5]);
	expect(await contacts(['sync', '--once'])).toMatchObject({ code: 0 });
	expect((await contacts(['sync', 'status'])).out).not.toContain('blocked');
});

test('beside another synchroniser it does nothing and says so', async () => {
	const other = await openSession(database.url);
	const requests = standIn.requests.length;
	for (const args of [['sync', '--once'], ['sync']]) {
		expect(await contacts(args)).toMatchObject({ code: 0, out: expect.stringContaining('Another synchroniser works') });
	}
	expect(standIn.requests).toHaveLength(requests);
	await other?.close();
});

test('what was held back makes it fail, and is done once it is confirmed', async () => {
	for (const id of [...standIn.contacts.keys()].slice(0, 60)) standIn.remove(id);
	expect(await contacts(['sync', '--once', '--full'])).toMatchObject({
		code: 1,
		error: expect.stringMatching(/^error: 60 of 120 .*--confirm-mass-delete/),
	});
	expect(await count()).toBe(120);
	expect(await contacts(['sync', '--once', '--full', '--confirm-mass-delete'])).toMatchObject({
		code: 0,
		out: expect.stringContaining('60 deleted'),
	});
	expect(await count()).toBe(60);
});

describe('wrong usage', () => {
	test.each<[string, string[], Record<string, string>, RegExp]>([
		['no webhook', ['sync'], { BITRIX24_WEBHOOK_URL: '' }, /^error: BITRIX24_WEBHOOK_URL is not set/],
		[
			'http to another host',
			['sync'],
			{ BITRIX24_WEBHOOK_URL: 'http://example.test/rest/1/secret/' },
			/^error: BITRIX24_WEBHOOK_URL is wrong/,
		],
		[
			'no webhook’s path',
			['sync'],
			{ BITRIX24_WEBHOOK_URL: 'https://example.test/' },
			/^error: BITRIX24_WEBHOOK_URL is wrong/,
		],
		['no country', ['sync'], { BITRIX24_DEFAULT_COUNTRY: 'ZZ' }, /^error: BITRIX24_DEFAULT_COUNTRY is wrong/],
		['no field code', ['sync'], { BITRIX24_UF_TROUBLE: 'ufCrm_1' }, /^error: BITRIX24_UF_TROUBLE is wrong/],
		['no plan', ['sync'], { BITRIX24_PLAN: 'gold' }, /^error: BITRIX24_PLAN is wrong/],
		['no contact', ['sync', '--contact', 'x'], {}, /^error: --contact takes/],
	])('%s', async (_, args, env, message) => {
		const { code, error } = await contacts(args, env);
		expect([code, error]).toEqual([2, expect.stringMatching(message)]);
		expect(error).not.toContain('secret');
	});
});
