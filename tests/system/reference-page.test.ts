import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { type Browser, startBrowser, visitWithProfile } from '@contacts/testing/browser.js';
import { rolePassword } from '@contacts/testing/database.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, onTestFinished } from 'vitest';
import { openForm, overflow, send, storedBy, typeCredentials, typeParameter } from './reference-page.js';

const key = 'canary-4711';
const list = '/api/company_contacts.list';
let company: RunningService;
let gateway: RunningNginx;
let browser: Browser;

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', key);
	await database.sql`
		insert into company_contacts (bitrix_id, phone, company_ids, name)
		values (1002, '+442079460101', '{1}', 'Alice Carter'), (1007, '+12025550103', '{11}', 'Chen Wei')`;
	[browser, company] = await Promise.all([
		startBrowser(),
		startService('company-contacts', { DATABASE_URL: urlAs(database.url, 'company-contacts', rolePassword) }),
	]);
	gateway = await startNginx(gatewayConfig(new URL(company.url).host));
});
afterAll(async () => {
	await browser?.close();
	await gateway?.stop();
	await company?.stop();
});

test('a request on the page lists the contacts; it contacts no other host, and no key outlives it', async () => {
	const visit = await visitWithProfile({ width: 1280, height: 900 });
	onTestFinished(() => visit.context.close());
	const page = await visit.open(`${gateway.url}/docs`);
	expect(await page.title()).toBe('Company contacts');
	await typeCredentials(page, key);
	await openForm(page, list);
	const all = await send(page);
	expect(all.status).toBe(200);
	expect(JSON.parse(all.body)).toMatchObject({ count: 2, data: [{ name: 'Alice Carter' }, { name: 'Chen Wei' }] });
	await page.getByText('Alice Carter').waitFor();

	await typeParameter(page, 'company_id', '11');
	expect(JSON.parse((await send(page)).body)).toMatchObject({ count: 1, data: [{ name: 'Chen Wei' }] });
	expect(visit.requests.at(-1)).toBe(`${gateway.url}${list}?company_id=11&project=partner&api_key=${key}`);
	expect(visit.complaints).toEqual([]);
	expect(visit.requests.length).toBeGreaterThanOrEqual(4);
	for (const url of visit.requests) if (!url.startsWith('data:')) expect(new URL(url).origin).toBe(gateway.url);
	expect(visit.requests.filter((url) => url.includes('canary')).every((url) => url.includes('/api/'))).toBe(true);
	const nothing = { localStorage: {}, sessionStorage: {}, cookies: '', caches: [], databases: [] };
	expect(await storedBy(page)).toEqual(nothing);

	await page.reload();
	await page.locator('input.scalar-password-input').first().waitFor();
	for (const input of await page.locator('input.scalar-password-input').all())
		expect(await input.inputValue()).toBe('');
	expect(await page.content()).not.toContain('canary');
	expect(page.url()).not.toContain('canary');
	expect(await visit.closeAndSearch('canary')).toEqual([]);
	expect(gateway.accessLog() + gateway.errorLog() + company.output()).not.toContain('canary');
});

test('on a phone the page fits, its guide calls the address that served it, and it shows errors', async () => {
	const visit = await browser.visit({ width: 390, height: 844, isMobile: true });
	onTestFinished(() => visit.context.close());
	const page = await visit.open(`${gateway.url}/docs`);
	expect((await page.locator('pre').allTextContents()).join('\n')).toContain(`${gateway.url}/api/`);

	await typeCredentials(page, 'wrong');
	await openForm(page, list);
	const refused = await send(page);
	expect([refused.status, JSON.parse(refused.body).code]).toEqual([401, 'unauthorized']);
	await page.getByText('"unauthorized"', { exact: true }).waitFor();
	expect(await overflow(page)).toBeLessThanOrEqual(0);
});
