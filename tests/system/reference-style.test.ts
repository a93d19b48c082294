import { EventEmitter, once } from 'node:events';
import { test } from '@contacts/testing/test.js';
import { expect, vi } from 'vitest';
import { openPage, scrollThrough, serviceNames, startReference, stopReference, urlOf } from '../reference-page.js';

// On a busy machine a browser takes its time.
vi.setConfig({ testTimeout: 300_000 });

test.beforeAll(startReference);
test.afterAll(stopReference);

/** What is cut, broken or wider than the page: nothing. */
const flaws = `(() => {
	const shown = (element) => element.textContent.trim().slice(0, 40) || element.className;
	const all = (selector) => [...document.querySelectorAll(selector)];
	const isOneLine = (element) => element.getClientRects().length <= 1;
	const isCut = ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1;
	const isOutside = (element) => element.getBoundingClientRect().right > innerWidth && !element.closest('table');
	return {
		page: document.documentElement.scrollWidth > innerWidth ? all('body *').filter(isOutside).map(shown) : [],
		words: all('.markdown td > code').filter((code) => !/[\\s-]/.test(shown(code)) && !isOneLine(code)).map(shown),
		cells: all('.markdown :is(th, td)').filter(isCut).map(shown),
		samples: all('pre').filter((pre) => isCut(pre) || all('pre code').some(isCut)).map(shown),
		tabs: all('.response-card .tab-list').filter(isCut).map(shown),
	};
})()`;

test.each(serviceNames)('the page of %s cuts no sample, breaks no word and hides no status', async (name) => {
	const page = await openPage();
	await page.goto(`${urlOf(name)}/docs`);
	for (const width of [1440, 1024, 390]) {
		await page.setViewportSize({ width, height: 900 });
		await scrollThrough(page);
		expect(await page.locator('.markdown table').count()).toBeGreaterThan(0);
		expect([width, await page.evaluate(flaws)]).toEqual([
			width,
			{ page: [], words: [], cells: [], samples: [], tabs: [] },
		]);
	}
	expect(await page.getByText('const:').filter({ visible: true }).count()).toBe(0);
});

test('the guide is shown before the script and the document of the reference, which are requested again after a refusal', async () => {
	const page = await openPage();
	const released = new EventEmitter();
	const isReleased = once(released, 'released');
	let requests = 0;
	await page.route('**/docs/scalar.js', async (route) => {
		if (requests++ < 2) return route.fulfill({ status: 503 });
		await isReleased;
		return route.continue();
	});
	let documents = 0;
	await page.route('**/openapi.json', (route) =>
		documents++ === 0 ? route.fulfill({ status: 503, body: '{}' }) : route.continue(),
	);
	const url = urlOf('company-contacts');
	await page.goto(`${url}/docs#errors`, { waitUntil: 'commit' });
	const top = (selector: string) =>
		page
			.locator(selector)
			.first()
			.evaluate((element) => Math.abs(element.getBoundingClientRect().top));
	await expect.poll(() => top('#guide h2#errors')).toBeLessThan(100);
	await expect.poll(() => page.locator('#guide pre').first().textContent()).toContain(`${url}/api/`);
	released.emit('released');
	await page.locator('input.scalar-password-input').waitFor({ state: 'attached' });
	expect(requests).toBeGreaterThan(2);
	expect(await page.locator('#guide').count()).toBe(0);
	// The same section, in the reference now.
	await expect.poll(() => top('h2[id="api/errors"]')).toBeLessThan(200);
});
