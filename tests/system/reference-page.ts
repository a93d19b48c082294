import type { Page } from 'playwright-core';

// What a visitor of the API reference's page does and sees.

/** Types the credentials at the top of the page. Scalar uses them for every request. */
export async function typeCredentials(page: Page, apiKey: string): Promise<void> {
	const [project, key] = await page.locator('input.scalar-password-input').all();
	await project?.fill('partner');
	await key?.fill(apiKey);
}

/** Opens the form of an operation, such as `/api/company_contacts.list`. */
export async function openForm(page: Page, path: string): Promise<void> {
	await page.evaluate(`location.hash = [...document.querySelectorAll('[id$="${path}"]')][0].id.replace('api/', '')`);
	await page.getByRole('button', { name: new RegExp(`Test Request.*${path}\\)`, 's') }).click();
	await sendButton(page).waitFor();
}

const sendButton = (page: Page) => page.getByRole('button', { name: /^Send( get| post)?/i }).first();

/** Types the value of a query parameter or header into the form. */
export async function typeParameter(page: Page, name: string, value: string): Promise<void> {
	const include = page.getByLabel(`Include ${name} in request`);
	const row = include.locator('xpath=ancestor::*[.//*[@data-placeholder="Value"]][1]');
	await row.locator('[data-placeholder="Value"]').fill(value);
}

/** Sends the form. @returns status and body of the response, as the page received them, once it shows the status */
export async function send(page: Page): Promise<{ status: number; body: string }> {
	const received = page.waitForResponse((response) => response.url().includes('/api/'));
	await sendButton(page).click();
	const response = await received;
	await page.getByText(String(response.status()), { exact: false }).last().waitFor();
	return { status: response.status(), body: response.status() === 304 ? '' : await response.text() };
}

/** Everything that a browser stores for a page, as it reports it. */
export function storedBy(page: Page): Promise<unknown> {
	return page.evaluate(`(async () => ({
		localStorage: { ...localStorage }, sessionStorage: { ...sessionStorage }, cookies: document.cookie,
		caches: await caches.keys(), databases: await indexedDB.databases(),
	}))()`);
}

/** Pixels by which a page is wider than its screen. A phone would zoom out, so its reported width does not count. */
export const overflow = async (page: Page) =>
	(await page.evaluate<number>('document.documentElement.scrollWidth')) - (page.viewportSize()?.width ?? 0);
