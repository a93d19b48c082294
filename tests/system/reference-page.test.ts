import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { type Browser, startBrowser, type View, type Visit, visitWithProfile } from '@contacts/testing/browser.js';
import { rolePassword } from '@contacts/testing/database.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, onTestFinished } from 'vitest';
import { execute, operation, overflow, tracesOf, typeCredentials } from './reference-page.js';

const key = 'canary-4711';
const desktop = { width: 1280, height: 900 };
const phone = { width: 390, height: 844, isMobile: true };
let company: RunningService;
let personal: RunningService;
let gateway: RunningNginx;
let browser: Browser;

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', key);
	await database.sql`
		insert into company_contacts (bitrix_id, phone, company_ids, name)
		values (1002, '+442079460101', '{1}', 'Alice Carter'), (1007, '+12025550103', '{11}', 'Chen Wei')`;
	[browser, company, personal] = await Promise.all([
		startBrowser(),
		startService('company-contacts', { DATABASE_URL: urlAs(database.url, 'company-contacts', rolePassword) }),
		startService('personal-contacts', { DATABASE_URL: urlAs(database.url, 'personal-contacts', rolePassword) }),
	]);
	gateway = await startNginx(gatewayConfig(new URL(company.url).host));
});
afterAll(async () => {
	await browser?.close();
	await gateway?.stop();
	await Promise.all([company?.stop(), personal?.stop()]);
});

async function startVisit(view: View): Promise<Visit> {
	const visit = await browser.visit(view);
	onTestFinished(() => visit.context.close());
	return visit;
}

test('the page renders without an error and contacts no other host', async () => {
	const visit = await startVisit(desktop);
	const page = await visit.open(`${gateway.url}/docs`);
	expect(await page.title()).toBe('Company contacts');
	expect(await page.locator('h3', { hasText: 'First call' }).isVisible()).toBe(true);
	expect(await page.locator('.responses-table .response').count()).toBeGreaterThan(10);
	expect(visit.complaints).toEqual([]);
	expect(visit.requests.length).toBeGreaterThan(5);
	for (const url of visit.requests) if (!url.startsWith('data:')) expect(new URL(url).origin).toBe(gateway.url);
});

test('a request on the page lists the contacts, and the page neither shows nor stores a key', async () => {
	const visit = await visitWithProfile(desktop);
	onTestFinished(() => visit.context.close());
	const page = await visit.open(`${gateway.url}/docs`);
	await typeCredentials(page, key);
	const all = await execute(page);
	expect(all.status).toBe('200');
	expect(JSON.parse(all.body)).toMatchObject({ count: 2, data: [{ name: 'Alice Carter' }, { name: 'Chen Wei' }] });

	await operation(page).getByPlaceholder('company_id').fill('11');
	expect(JSON.parse((await execute(page)).body)).toMatchObject({ count: 1, data: [{ name: 'Chen Wei' }] });

	const shown = await page.locator('.live-responses-table, .request-url, .curl-command').allTextContents();
	expect(shown.join('\n')).toContain('/api/company_contacts.list?company_id=11&project=partner&api_key=YOUR_KEY');
	expect(await tracesOf(page)).not.toContain('canary');
	expect(visit.complaints).toEqual([]);
	expect(visit.requests.filter((url) => url.includes('canary')).every((url) => url.includes('/api/'))).toBe(true);

	await page.reload();
	await operation(page).locator('.execute').waitFor();
	expect(await page.getByLabel('API key').inputValue()).toBe('');
	expect((await execute(page)).status).toBe('401');
	expect(await visit.closeAndSearch('canary')).toEqual([]);
	expect(gateway.accessLog() + gateway.errorLog() + company.output()).not.toContain('canary');
});

test('the page shows a 304 for a known list, and the 401 problem for a wrong key', async () => {
	const visit = await startVisit(desktop);
	const page = await visit.open(`${gateway.url}/docs`);
	await typeCredentials(page, 'wrong');
	const refused = await execute(page);
	expect(refused.status).toBe('401');
	expect(JSON.parse(refused.body)).toMatchObject({ code: 'unauthorized', detail: expect.stringContaining('api_key') });

	await typeCredentials(page, key);
	await operation(page).getByPlaceholder('If-None-Match').fill('*');
	const received = page.waitForResponse((response) => response.url().includes('/api/'));
	await operation(page).locator('.execute').click();
	expect((await received).status()).toBe(304);
});

test('the cursor of one response is sent with the next request', async () => {
	const visit = await startVisit(desktop);
	const page = await visit.open(`${gateway.url}/docs`);
	await typeCredentials(page, key);
	const changes = operation(page, /\/api\/company_contacts\.changes/);
	await changes.getByPlaceholder('limit').fill('1');
	const first = JSON.parse((await execute(page, changes)).body) as { cursor: string };
	expect(first).toMatchObject({ changes: [{ contact: { name: 'Alice Carter' } }], has_more: true });
	await changes.getByPlaceholder('cursor').fill(first.cursor);
	const second = JSON.parse((await execute(page, changes)).body) as unknown;
	expect(second).toMatchObject({ changes: [{ contact: { name: 'Chen Wei' } }], has_more: false });
	expect(visit.complaints).toEqual([]);
});

test('a wrong field says in words what is allowed, and the page removes the last response', async () => {
	const visit = await startVisit(desktop);
	const page = await visit.open(`${gateway.url}/docs`);
	await typeCredentials(page, key);
	expect((await execute(page)).status).toBe('200');
	await operation(page).getByPlaceholder('company_id').fill('0x1');
	await operation(page).locator('.execute').click();
	await page.getByText('A positive integer in decimal digits, at most 9223372036854775807.').waitFor();
	expect(await operation(page).locator('.live-responses-table').count()).toBe(0);
	expect(visit.requests.filter((url) => url.includes('company_id'))).toEqual([]);
	await operation(page).getByPlaceholder('company_id').fill('1');
	expect(JSON.parse((await execute(page)).body)).toMatchObject({ count: 1, data: [{ name: 'Alice Carter' }] });
});

test('the page shows successful responses first, and collapses the errors', async () => {
	const visit = await startVisit(desktop);
	const page = await visit.open(`${gateway.url}/docs`);
	const visible = await operation(page)
		.locator('.responses-table .response .response-col_status:visible')
		.allTextContents();
	expect(visible).toEqual(['200', '304']);
	await operation(page).locator('details.errors > summary').click();
	expect(await operation(page).getByText('rate_limited').first().isVisible()).toBe(true);
});

test.each(['light', 'dark'] as const)('text and background differ in a %s theme', async (colorScheme) => {
	const { open } = await startVisit({ ...desktop, colorScheme });
	const page = await open(`${gateway.url}/docs`);
	const [paper, text] = await page.evaluate<string[]>(`(() => {
		const { backgroundColor } = getComputedStyle(document.body);
		return [backgroundColor, getComputedStyle(document.querySelector('.swagger-ui .info p')).color];
	})()`);
	const brightness = (color = '') =>
		(color.match(/\d+/g) ?? []).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
	const difference = brightness(paper) - brightness(text);
	expect(colorScheme === 'light' ? difference : -difference).toBeGreaterThan(400);
});

test('the guide is a page whose samples call the address that served it', async () => {
	const visit = await startVisit(phone);
	const page = await visit.context.newPage();
	await page.goto(`${gateway.url}/docs/guide`);
	expect(await page.locator('h1').textContent()).toBe('For partners');
	const samples = (await page.locator('pre').allTextContents()).join('\n');
	expect(samples).toContain(`${gateway.url}/api/company_contacts.list?company_id=7`);
	expect(samples).not.toContain('127.0.0.1:3000');
	const links = await page.locator('main a[href^="#"]').all();
	expect(links.length).toBeGreaterThan(0);
	for (const link of links)
		expect(await page.locator(`[id="${(await link.getAttribute('href'))?.slice(1)}"]`).count()).toBe(1);
	expect(await overflow(page)).toBeLessThanOrEqual(0);
	expect(visit.complaints).toEqual([]);
	for (const url of visit.requests) expect(new URL(url).origin).toBe(gateway.url);
});

test('on a phone nothing is wider than the screen, and a request works', async () => {
	const visit = await startVisit(phone);
	const page = await visit.open(`${gateway.url}/docs`);
	expect(await overflow(page)).toBeLessThanOrEqual(0);
	await typeCredentials(page, key);
	expect((await execute(page)).status).toBe('200');
	await operation(page).locator('details.errors > summary').tap();
	for (const each of await operation(page).locator('details.headers summary').all()) await each.tap();
	expect(await overflow(page)).toBeLessThanOrEqual(0);
	expect(visit.complaints).toEqual([]);
});

test('the internal service also has a page', async () => {
	const visit = await startVisit(phone);
	const page = await visit.open(`${personal.url}/docs`);
	await typeCredentials(page, key);
	expect(JSON.parse((await execute(page)).body)).toEqual({ ok: 'saved' });
	expect(await overflow(page)).toBeLessThanOrEqual(0);
	expect(await tracesOf(page)).not.toContain('canary');
	expect(visit.complaints).toEqual([]);
	const [saved] = await database.sql`select username from personal_contacts where chat_id = 5550001`;
	expect(saved).toEqual({ username: 'ivan' });
});

test('the page shows only the beginning of a long list, so that a browser does not freeze', async () => {
	await database.sql`
		insert into company_contacts (bitrix_id, company_ids, name)
		select n, '{99}', repeat('x', 100) from generate_series(10000, 19999) n`;
	const visit = await startVisit(desktop);
	const page = await visit.open(`${gateway.url}/docs`);
	await typeCredentials(page, key);
	await operation(page).getByPlaceholder('company_id').fill('99');
	const { status, body } = await execute(page);
	expect(status).toBe('200');
	expect(JSON.parse(body)).toMatchObject({ count: 10_000, data: { length: 50 } });
	expect(await page.getByText('all 10000 elements').isVisible()).toBe(true);
	expect(visit.complaints).toEqual([]);
});
