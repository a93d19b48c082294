import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { type Browser, startBrowser, type View, type Visit, visitWithProfile } from '@contacts/testing/browser.js';
import { rolePassword } from '@contacts/testing/database.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { closeForm, openForm, overflow, send, storedBy, typeCredentials, typeParameter } from './reference-page.js';

const key = 'canary-4711';
const list = '/api/company_contacts.list';
const changes = '/api/company_contacts.changes';
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
	await openForm(page, list);
	expect(visit.complaints).toEqual([]);
	expect(visit.requests.length).toBeGreaterThanOrEqual(4);
	for (const url of visit.requests) if (!url.startsWith('data:')) expect(new URL(url).origin).toBe(gateway.url);
});

test('a request on the page lists the contacts, and no key outlives the page', async () => {
	const visit = await visitWithProfile(desktop);
	onTestFinished(() => visit.context.close());
	const page = await visit.open(`${gateway.url}/docs`);
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

test('the page shows a 401 for a wrong key, a 400 for a wrong parameter, and a 304 for a list that is known', async () => {
	const visit = await startVisit(desktop);
	const page = await visit.open(`${gateway.url}/docs`);
	await typeCredentials(page, 'wrong');
	await openForm(page, list);
	const refused = await send(page);
	expect(refused.status).toBe(401);
	expect(JSON.parse(refused.body)).toMatchObject({ code: 'unauthorized', detail: expect.stringContaining('api_key') });
	await page.getByText('"unauthorized"', { exact: true }).waitFor();
	await closeForm(page);

	await typeCredentials(page, key);
	await openForm(page, list);
	await typeParameter(page, 'company_id', '0');
	const wrong = await send(page);
	expect(JSON.parse(wrong.body)).toMatchObject({ status: 400, errors: [{ field: 'company_id' }] });
	await page.getByText('must be a positive integer').first().waitFor();

	await typeParameter(page, 'company_id', '1');
	await typeParameter(page, 'If-None-Match', '*');
	expect((await send(page)).status).toBe(304);
});

test('the cursor of one response is sent with the next request', async () => {
	const visit = await startVisit(desktop);
	const page = await visit.open(`${gateway.url}/docs`);
	await typeCredentials(page, key);
	await openForm(page, changes);
	await typeParameter(page, 'limit', '1');
	const first = JSON.parse((await send(page)).body) as { cursor: string };
	expect(first).toMatchObject({ changes: [{ contact: { name: 'Alice Carter' } }], has_more: true });
	await typeParameter(page, 'cursor', first.cursor);
	const second = JSON.parse((await send(page)).body) as unknown;
	expect(second).toMatchObject({ changes: [{ contact: { name: 'Chen Wei' } }], has_more: false });
	expect(visit.complaints).toEqual([]);
});

describe('the guide is the introduction of the page', () => {
	test.each([
		['partners', () => gateway.url, '127.0.0.1:3000'],
		['the bot', () => personal.url, '127.0.0.1:3001'],
	] as const)(
		'for %s: its samples call the address that served it, and its links lead to its sections',
		async (_, url, written) => {
			const visit = await startVisit(phone);
			const page = await visit.open(`${url()}/docs`);
			const samples = (await page.locator('pre').allTextContents()).join('\n');
			expect(samples).toContain(`${url()}/api/`);
			expect(await page.content()).not.toContain(written);
			const links = await page
				.locator('a[href^="#"]')
				.evaluateAll((all) => all.map((each) => each.getAttribute('href')));
			for (const link of links)
				expect(await page.locator(`[id="api/${String(link).slice(1)}"]`).count()).toBeGreaterThan(0);
			expect(await overflow(page)).toBeLessThanOrEqual(0);
			expect(visit.complaints).toEqual([]);
			for (const each of visit.requests) if (!each.startsWith('data:')) expect(new URL(each).origin).toBe(url());
		},
	);
});

test.each([
	['light', desktop],
	['dark', desktop],
	['light', phone],
	['dark', phone],
] as const)(
	'text and background differ in a %s theme on %o, and nothing is wider than the screen',
	async (colorScheme, view) => {
		const { open } = await startVisit({ ...view, colorScheme });
		const page = await open(`${gateway.url}/docs`);
		const [paper, text] = await page.evaluate<string[]>(`(() => {
		const paragraph = document.querySelector('.markdown p');
		return [getComputedStyle(document.body).backgroundColor, getComputedStyle(paragraph).color];
	})()`);
		const brightness = (color = '') =>
			(color.match(/\d+/g) ?? []).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
		const difference = brightness(paper) - brightness(text);
		expect(colorScheme === 'light' ? difference : -difference).toBeGreaterThan(400);
		expect(await overflow(page)).toBeLessThanOrEqual(0);
	},
);

test('on a phone a request works', async () => {
	const visit = await startVisit(phone);
	const page = await visit.open(`${gateway.url}/docs`);
	await typeCredentials(page, key);
	await openForm(page, list);
	expect((await send(page)).status).toBe(200);
	expect(await overflow(page)).toBeLessThanOrEqual(0);
	expect(visit.complaints).toEqual([]);
});

test('the page of the internal service saves a user', async () => {
	const visit = await startVisit(desktop);
	const page = await visit.open(`${personal.url}/`);
	expect(new URL(page.url()).pathname).toBe('/docs');
	await typeCredentials(page, key);
	await openForm(page, '/api/personal_contacts');
	expect(JSON.parse((await send(page)).body)).toEqual({ ok: 'saved' });
	expect(visit.complaints).toEqual([]);
	const [saved] = await database.sql`select username from personal_contacts where chat_id = 5550001`;
	expect(saved).toEqual({ username: 'ivan' });
});
