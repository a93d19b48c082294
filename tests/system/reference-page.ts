import type { Page } from 'playwright-core';

// What a visitor of the API reference's page does and sees.

export async function typeCredentials(page: Page, apiKey: string): Promise<void> {
	await page.getByLabel('Project code').fill('partner');
	await page.getByLabel('API key').fill(apiKey);
}

/** The list or the upsert, depending on the service. */
export const operation = (page: Page, path = /\/api\/(company_contacts\.list|personal_contacts)/) =>
	page.locator('.opblock', { hasText: path });

/** Sends the request on the page. @returns status and body of the response, as the page shows them */
export async function execute(page: Page, on = operation(page)): Promise<{ status: string; body: string }> {
	const received = page.waitForResponse((response) => response.url().includes('/api/'));
	await on.locator('.execute').click();
	const response = await received;
	const shown = on.locator('.live-responses-table');
	await shown.getByText(String(response.headers()['x-request-id'])).first().waitFor();
	const text = (selector: string) => shown.locator(selector).last().textContent();
	return { status: (await text('.response-col_status')) ?? '', body: (await text('.highlight-code pre')) ?? '' };
}

/** Everything that a page shows, links to or stores, as the browser reports it. */
export function tracesOf(page: Page): Promise<string> {
	return page.evaluate(`(async () => JSON.stringify([
		document.documentElement.outerHTML, location.href, document.referrer, document.cookie, history.state,
		{ ...localStorage }, { ...sessionStorage }, await caches.keys(), await indexedDB.databases(),
	]))()`);
}

/** Pixels by which a page is wider than its screen. A phone would zoom out, so its reported width does not count. */
export const overflow = async (page: Page) =>
	(await page.evaluate<number>('document.documentElement.scrollWidth')) - (page.viewportSize()?.width ?? 0);
