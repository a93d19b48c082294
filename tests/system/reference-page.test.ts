import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { addProject } from '@contacts/testing/app.js';
import { gatewayConfig } from '@contacts/testing/gateway.js';
import { startNginx } from '@contacts/testing/nginx.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { chromium, type Page } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { startService } from '../services.js';

const key = 'canary-4711';
const list = '/api/company_contacts.list';

const sendButton = (page: Page) => page.getByRole('button', { name: /^Send( get| post)?/i }).first();

/** Sends the form. @returns status and body of the response, as the page received them, once it shows the status */
async function send(page: Page) {
	const received = page.waitForResponse((response) => response.url().includes('/api/'));
	await sendButton(page).click();
	const response = await received;
	await page.getByText(String(response.status()), { exact: false }).last().waitFor();
	return { status: response.status(), body: JSON.parse(await response.text()) };
}

/** Everything that a browser stores for a page, as it reports it. */
const storedBy = (page: Page) =>
	page.evaluate(`(async () => ({
		localStorage: { ...localStorage }, sessionStorage: { ...sessionStorage }, cookies: document.cookie,
		caches: await caches.keys(), databases: await indexedDB.databases(),
	}))()`);

test('a request on the page of the API reference lists the contacts; it contacts no other host, and no key outlives it', async () => {
	await addProject(database.sql, 'partner', key);
	await database.sql`
		insert into company_contacts (bitrix_id, phone, company_ids, name)
		values (1002, '+442079460101', '{1}', 'Nobody of the guide'), (1007, '+12025550103', '{11}', 'Chen Wei')`;
	const company = await startService('company-contacts', {});
	onTestFinished(() => company.stop());
	const gateway = await startNginx(gatewayConfig(new URL(company.url).host));
	onTestFinished(() => gateway.stop());
	const profile = await temporaryFolder();
	const executablePath = execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim();
	const browser = await chromium.launchPersistentContext(profile, { executablePath });
	onTestFinished(() => browser.close());
	const complaints: string[] = [];
	const requests: string[] = [];
	browser.on('console', (message) => {
		if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
	});
	browser.on('weberror', (error) => complaints.push(String(error.error())));
	browser.on('request', (request) => requests.push(request.url()));

	const page = await browser.newPage();
	await page.goto(`${gateway.url}/docs`);
	// Scalar uses the credentials at the top of the page for every request.
	const project = page.locator('[data-placeholder="your project"]').first();
	const keyInput = page.locator('input.scalar-password-input[placeholder="your key"]');
	await keyInput.waitFor();
	expect(await page.title()).toBe('Company contacts');
	expect((await page.locator('pre').allTextContents()).join('\n')).toContain(`${gateway.url}/api/`);
	expect([await project.textContent(), await keyInput.inputValue()]).toEqual(['', '']);
	// Tools import that document, and not the one of the page, which has the project as a second credential.
	const download = page.getByRole('link', { name: 'Download OpenAPI Document' });
	expect(await download.getAttribute('href')).toBe(`${gateway.url}/openapi.json`);
	await page.evaluate(`location.hash = [...document.querySelectorAll('[id$="${list}"]')][0].id.replace('api/', '')`);
	const samples = async () => (await page.locator('pre').allTextContents()).join('\n');
	await expect.poll(samples).toContain('project=YOUR_PROJECT&api_key=YOUR_KEY');
	expect(await samples()).not.toContain('SECRET');
	await project.fill('partner');
	await keyInput.fill(key);
	await page.getByRole('button', { name: new RegExp(`Test Request.*${list}\\)`, 's') }).click();
	await sendButton(page).waitFor();
	const data = [{ name: 'Nobody of the guide' }, { name: 'Chen Wei' }];
	expect(await send(page)).toMatchObject({ status: 200, body: { count: 2, data } });
	await page.getByText('Nobody of the guide').waitFor();

	const warning = page.locator('.alert', { has: page.getByLabel('Include company_id in request') });
	expect(await warning.count()).toBe(0);
	const parameter = page
		.getByLabel('Include company_id in request')
		.locator('xpath=ancestor::*[.//*[@data-placeholder="Value"]][1]');
	const value = parameter.locator('[data-placeholder="Value"]');
	await value.fill('x');
	await warning.waitFor();
	await value.fill('11');
	expect(await send(page)).toMatchObject({ status: 200, body: { count: 1, data: [{ name: 'Chen Wei' }] } });
	expect(requests.at(-1)).toBe(`${gateway.url}${list}?company_id=11&project=partner&api_key=${key}`);
	expect(complaints).toEqual([]);
	expect(requests.length).toBeGreaterThanOrEqual(4);
	for (const url of requests) if (!url.startsWith('data:')) expect(new URL(url).origin).toBe(gateway.url);
	expect(requests.filter((url) => url.includes('canary')).every((url) => url.includes('/api/'))).toBe(true);
	const nothing = { localStorage: {}, sessionStorage: {}, cookies: '', caches: [], databases: [] };
	expect(await storedBy(page)).toEqual(nothing);

	await page.reload();
	await keyInput.waitFor();
	expect([await project.textContent(), await keyInput.inputValue()]).toEqual(['', '']);
	expect(await page.content()).not.toContain('canary');
	expect(page.url()).not.toContain('canary');
	await browser.close();
	const files = readdirSync(profile, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
	const paths = files.map(({ parentPath, name }) => join(parentPath, name));
	expect(paths.filter((path) => readFileSync(path).includes('canary'))).toEqual([]);
	expect(gateway.accessLog() + gateway.errorLog() + company.output()).not.toContain('canary');
});
