import { startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database as db, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { service } from './app.js';

let app: TestApp;

test.beforeAll(async () => {
	app = await startTestApp(service, db.url);
});
afterAll(() => app?.close());

/** The metrics of the mirror, as the service's own database role sees them. */
async function mirror(): Promise<Record<string, number>> {
	const text = await (await app.fetch('/metrics')).text();
	return Object.fromEntries([...text.matchAll(/^(crm_\w+) (\S+)$/gm)].map(([, name, value]) => [name, Number(value)]));
}

test('before the first pass the mirror has no time of a last success', async () => {
	const expected = { crm_last_success_timestamp_seconds: Number.NaN, crm_blocked: 0, crm_alarm: 0 };
	// Until the database has responded, nothing is known.
	await expect.poll(mirror).toEqual(expected);
});

test('the metrics report the last success, whether the synchroniser is blocked, and whether somebody has to look', async () => {
	await db.sql`
		update crm_sync_state set last_success_at = '2026-01-02T03:04:05Z', blocked_by = 'INVALID_CREDENTIALS'`;
	const timestamp = Date.parse('2026-01-02T03:04:05Z') / 1000;
	await expect.poll(mirror).toEqual({ crm_last_success_timestamp_seconds: timestamp, crm_blocked: 1, crm_alarm: 0 });

	await db.sql`update crm_sync_state set blocked_by = null, alarm = 'mass_delete: 30 of 100', alarm_at = now()`;
	await expect.poll(mirror).toMatchObject({ crm_blocked: 0, crm_alarm: 1 });
});
