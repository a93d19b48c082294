import { service } from '@contacts/company-contacts/app.js';
import { startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect } from 'vitest';
import { contacts, expectOneLine, expectWrongUsage } from '../testing/command.js';

const day = 86_400_000;
let app: TestApp;
/** Milliseconds that the service's clock is ahead of the database's. */
let ahead = 0;

test.beforeAll(async () => {
	await database.sql`insert into projects (code) values ('one')`;
	app = await startTestApp(service, database.url, { now: () => Date.now() + ahead });
});
afterAll(() => app?.close());

const run = (...args: string[]) => contacts(database.url, ['key', ...args]);
const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout);
async function statusOf(key: string, later = 0): Promise<number> {
	ahead = later;
	await app.keyRing.refresh();
	return (await app.fetch(`/api/company_contacts.list?project=one&api_key=${key}`)).status;
}
/** Days from now, to the nearest hundredth. */
const daysUntil = (time: string) => Math.round(((Date.parse(time) - Date.now()) / day) * 100) / 100;

describe('key rotate', () => {
	test('makes a key for the same service; both are valid until the overlap ends, then only the new one', async () => {
		const old = await json('create', 'one', '--service', 'company-contacts');
		const made = await json('rotate', String(old.id), '--overlap', '12h');
		expect(made).toMatchObject({ old_id: old.id, project: 'one', service: 'company-contacts', expires_at: null });
		expect(daysUntil(made.old_expires_at)).toBe(0.5);
		expect([await statusOf(old.key), await statusOf(made.key)]).toEqual([200, 200]);
		expect([await statusOf(old.key, 0.51 * day), await statusOf(made.key, 0.51 * day)]).toEqual([401, 200]);
	});

	test('the overlap is seven days by default, and never outlives the old key', async () => {
		const lasting = await json('create', 'one');
		expect(daysUntil((await json('rotate', String(lasting.id))).old_expires_at)).toBe(7);
		const ending = await json('create', 'one', '--expires', '3');
		expect(daysUntil((await json('rotate', String(ending.id))).old_expires_at)).toBe(3);
	});

	test('the successor of an expiring key has the same lifetime, even when it is rotated late', async () => {
		const old = await json('create', 'one', '--expires', '30');
		await database.sql`
			update api_keys set created_at = created_at - interval '20 days', expires_at = expires_at - interval '20 days'
			where id = ${old.id}`;
		const made = await json('rotate', String(old.id), '--overlap', '1d');
		expect(daysUntil(made.old_expires_at)).toBe(1);
		expect(daysUntil(made.expires_at)).toBe(30);
		expect([await statusOf(made.key, 29 * day), await statusOf(made.key, 31 * day)]).toEqual([200, 401]);
	});

	test('a key that is rotated again has a successor with the lifetime that the key was created with', async () => {
		const lasting = await json('create', 'one');
		const ending = await json('create', 'one', '--expires', '30');
		for (const [id, days] of [
			[lasting.id, null],
			[ending.id, 30],
		]) {
			await run('rotate', String(id));
			const again = await json('rotate', String(id), '--overlap', '8d');
			expect(daysUntil(again.old_expires_at)).toBe(7);
			expect(again.expires_at === null ? null : daysUntil(again.expires_at)).toBe(days);
		}
	});

	test('two rotations of one key at once make successors with the lifetime that the key was created with', async () => {
		const old = await json('create', 'one');
		const other = await database.sql.reserve();
		await other`begin`;
		await other`select from api_keys where id = ${old.id} for update`;
		const made = [json('rotate', String(old.id)), json('rotate', String(old.id))];
		const waiting = () => database.sql`
			select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
		await expect.poll(waiting, { timeout: 20_000 }).toHaveLength(2);
		await other`rollback`;
		other.release();
		expect((await Promise.all(made)).map(({ expires_at }) => expires_at)).toEqual([null, null]);
	});

	test('prints only the new key on standard output, and the expiry of both on standard error', async () => {
		const old = await json('create', 'one', '--expires', '30');
		const outcome = await run('rotate', String(old.id));
		expect(outcome.stdout).toMatch(/^cck_\w+\n$/);
		expect(outcome.stderr).toMatch(
			/^This is key \d+ of one\. It is shown only now: keep it safe\. It ends at \S+Z\. Key \d+ ends at \S+Z\.\n$/,
		);
	});

	test('a revoked, expired or unknown key can’t be rotated, and the error says what to do', async () => {
		const revoked = await json('create', 'one', '--name', 'billing job');
		await run('revoke', String(revoked.id), '--yes');
		const expired = await json('create', 'one');
		await database.sql`update api_keys set expires_at = now() - interval '1 day' where id = ${expired.id}`;
		for (const [id, end] of [
			[revoked.id, '\\(billing job\\) was revoked'],
			[expired.id, 'expired'],
		]) {
			const line = new RegExp(`Key ${id} of one ${end} at \\S+Z\\. Create another one: contacts key create one$`, 'm');
			expectOneLine(await run('rotate', String(id)), 1, line);
		}
		expectOneLine(await run('rotate', '999999'), 1, 'There is no key 999999: contacts key list shows all.');
	});

	test.each(['7', '1w', '-1d', ''])('an invalid overlap is wrong usage: %j', async (overlap) => {
		await expectWrongUsage(database.url, ['key', 'rotate', '1', `--overlap=${overlap}`], '--overlap takes');
	});
});
