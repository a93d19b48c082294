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

test('before the first pass the age of the mirror is no number', async () => {
	expect(await mirror()).toEqual({ crm_last_success_age_seconds: Number.NaN, crm_blocked: 0, crm_alarm: 0 });
});

test('its age in seconds, whether something blocks it, and whether somebody has to look', async () => {
	await db.sql`
		update crm_sync_state set last_success_at = now() - interval '90 seconds', blocked_by = 'INVALID_CREDENTIALS'`;
	const blocked = await mirror();
	expect(blocked).toMatchObject({ crm_blocked: 1, crm_alarm: 0 });
	expect(blocked.crm_last_success_age_seconds).toBeGreaterThanOrEqual(90);
	expect(blocked.crm_last_success_age_seconds).toBeLessThan(120);

	await db.sql`update crm_sync_state set blocked_by = null, alarm = 'mass_delete: 30 of 100', alarm_at = now()`;
	expect(await mirror()).toMatchObject({ crm_blocked: 0, crm_alarm: 1 });
});
