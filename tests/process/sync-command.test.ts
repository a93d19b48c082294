import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { urlAs } from '@contacts/common/database/roles.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { rolePassword } from '@contacts/testing/database.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';

const command = fileURLToPath(new URL('../../tools/cli/dist/main.js', import.meta.url));
let standIn: StandIn;

test.beforeAll(async () => {
	standIn = await startStandIn({ plan: 'enterprise' });
	for (let n = 1; n <= 120; n++) standIn.add({ lastName: `Contact ${n}`, companyIds: [n] });
});
afterAll(() => standIn?.close());

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

test('sync --once makes a full pass first, and a second run changes nothing', async () => {
	expect(await contacts(['sync', '--once'])).toMatchObject({
		code: 0,
		out: expect.stringMatching(/^Full pass: 120 new, 0 changed, 0 deleted/),
	});
	expect(await count()).toBe(120);
	const again = await contacts(['sync', '--once', '--full', '--json']);
	expect(JSON.parse(again.out)).toMatchObject({ kind: 'full', seen: 120, created: 0, changed: 0, deleted: 0 });
	expect(await contacts(['sync', '--once'])).toMatchObject({ out: expect.stringMatching(/^Incremental pass: 0 new/) });
});

test('sync --contact reads one contact again', async () => {
	const [id = 0] = standIn.contacts.keys();
	standIn.update(id, { companyIds: [4711] }, { touch: false });
	expect(await contacts(['sync', '--once', '--contact', String(id)])).toMatchObject({ code: 0 });
	expect(await database.sql`select company_ids::text as ids from company_contacts where bitrix_id = ${id}`).toEqual([
		{ ids: '{4711}' },
	]);
});

test('sync status shows the last success, the runs, and what blocks the synchroniser until when', async () => {
	standIn.faults.next({ kind: 'error', code: 'OVERLOAD_LIMIT' });
	expect(await contacts(['sync', '--once'])).toMatchObject({
		code: 1,
		error: expect.stringMatching(/^error: .*OVERLOAD_LIMIT: .*support.*\n$/),
	});
	const { out } = await contacts(['sync', 'status']);
	expect(out).toMatch(/^last success +\d{4}-/m);
	expect(out).toMatch(/^blocked by +OVERLOAD_LIMIT, until \d{4}-/m);
	expect(out).toMatch(/^full .* 120 .* done$/m);
	const { state, runs } = JSON.parse((await contacts(['sync', 'status', '--json'])).out);
	expect([state.blocked_by, runs.length]).toEqual(['OVERLOAD_LIMIT', 5]);
	expect(await contacts(['sync', '--once'])).toMatchObject({ code: 0 });
	expect((await contacts(['sync', 'status'])).out).not.toContain('blocked');
});

test('sync changes nothing when its fields differ from those of the mirror, and reads everything again with --remap', async () => {
	const fields = { BITRIX24_UF_REASON: 'UF_CRM_1' };
	standIn.fields.push({ name: 'UF_CRM_1', type: 'string' });
	for (const contact of standIn.contacts.values()) standIn.update(contact.id, { uf: { UF_CRM_1: 'because' } });
	const reasons = async () =>
		(await database.sql`select from company_contacts where perplexity_reason = 'because'`).length;
	const line =
		/^error: The mirror was made with another configuration: BITRIX24_UF_REASON is not set there and UF_CRM_1 here\. [^\n]+ --remap [^\n]+\n$/;
	for (const args of [
		['sync'],
		['sync', '--once'],
		['sync', '--once', '--full'],
		['sync', '--confirm-mass-delete', '1'],
	])
		expect(await contacts(args, fields)).toEqual({ code: 1, out: '', error: expect.stringMatching(line) });
	expect(await reasons()).toBe(0);
	expect((await contacts(['sync', '--remap'], fields)).out).toMatch(/^Full pass: 0 new, 120 changed/);
	expect(await reasons()).toBe(120);
	// A run by hand without the variable would empty the column.
	expect(await contacts(['sync', '--once', '--full'])).toMatchObject({ code: 0 });
	expect(await reasons()).toBe(120);
	expect((await contacts(['sync', 'status'])).out).toMatch(/^fields +trouble -, reason UF_CRM_1$/m);
	expect((await contacts(['sync', '--remap'])).code).toBe(0);
	expect(await reasons()).toBe(0);
});

test('sync fails when it holds back a mass deletion, and deletes once that is confirmed', async () => {
	for (const id of [...standIn.contacts.keys()].slice(0, 60)) standIn.remove(id);
	expect(await contacts(['sync', '--once', '--full'])).toMatchObject({
		code: 1,
		error: expect.stringMatching(/^error: 60 contacts are missing .*--confirm-mass-delete \d+/),
	});
	expect(await count()).toBe(120);
	const [state] = await database.sql`select held_run from crm_sync_state`;
	expect(await contacts(['sync', '--once', '--confirm-mass-delete', String(state?.held_run)])).toMatchObject({
		code: 0,
		out: expect.stringContaining('60 deleted'),
	});
	expect(await count()).toBe(60);
});

describe('wrong usage', () => {
	test.each<[string, string[], Record<string, string>, RegExp]>([
		['no webhook', ['sync', '--once'], { BITRIX24_WEBHOOK_URL: '' }, /^error: BITRIX24_WEBHOOK_URL is not set/],
		[
			'http to another host',
			['sync', '--once'],
			{ BITRIX24_WEBHOOK_URL: 'http://example.test/rest/1/secret/' },
			/^error: BITRIX24_WEBHOOK_URL is wrong/,
		],
		[
			'no webhook’s path',
			['sync', '--once'],
			{ BITRIX24_WEBHOOK_URL: 'https://example.test/' },
			/^error: BITRIX24_WEBHOOK_URL is wrong/,
		],
		['no country', ['sync', '--once'], { BITRIX24_DEFAULT_COUNTRY: 'ZZ' }, /^error: BITRIX24_DEFAULT_COUNTRY is wrong/],
		['no field code', ['sync', '--once'], { BITRIX24_UF_TROUBLE: 'ufCrm_1' }, /^error: BITRIX24_UF_TROUBLE is wrong/],
		['no plan', ['sync', '--once'], { BITRIX24_PLAN: 'gold' }, /^error: BITRIX24_PLAN is wrong/],
		['no contact', ['sync', '--contact', 'x'], {}, /^error: --contact takes/],
		['a contact beyond all numbers', ['sync', '--contact', '9007199254740993'], {}, /^error: --contact takes/],
		['one contact for all', ['sync', '--remap', '--contact', '5'], {}, /^error: --contact reads one contact/],
		['one contact and all', ['sync', '--full', '--contact', '5'], {}, /^error: --contact reads one contact/],
		[
			'deletions by one contact',
			['sync', '--contact', '5', '--confirm-mass-delete', '1'],
			{},
			/^error: --contact reads one/,
		],
		['deletions of no run', ['sync', '--confirm-mass-delete', 'x'], {}, /^error: --confirm-mass-delete takes/],
	])('%s', async (_, args, env, message) => {
		const { code, error } = await contacts(args, env);
		expect([code, error]).toEqual([2, expect.stringMatching(message)]);
		expect(error).not.toContain('secret');
	});
});
