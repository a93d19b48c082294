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

test('the metrics report when the mirror was last equal to the CRM, and NaN before', async () => {
	await expect.poll(mirror).toEqual({ crm_last_success_timestamp_seconds: Number.NaN });
	await db.sql`update crm_sync_state set last_success_at = '2026-01-02T03:04:05Z'`;
	const timestamp = Date.parse('2026-01-02T03:04:05Z') / 1000;
	await expect.poll(mirror).toEqual({ crm_last_success_timestamp_seconds: timestamp });
});
