import { execFileSync } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { RunningService } from '@contacts/testing/services.js';
import { test } from '@contacts/testing/test.js';
import type { AxeResults } from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { expect, onTestFinished, vi } from 'vitest';
import { startService } from '../services.js';

// On a busy machine a browser takes its time.
vi.setConfig({ testTimeout: 300_000 });

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const names = ['company-contacts', 'personal-contacts'] as const;
const services = new Map<string, RunningService>();
let browser: Browser;

test.beforeAll(async () => {
	const executablePath = execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim();
	browser = await chromium.launch({ executablePath });
	for (const name of names) services.set(name, await startService(name));
});
test.afterAll(async () => {
	await browser.close();
	for (const service of services.values()) await service.stop();
});

async function openPage(): Promise<Page> {
	const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'light' });
	onTestFinished(() => context.close());
	context.setDefaultTimeout(120_000);
	return context.newPage();
}

/** Shows the reference from its beginning to its end, as it renders what comes into sight. */
async function scrollThrough(page: Page): Promise<void> {
	await page.locator('input.scalar-password-input').waitFor({ state: 'attached' });
	await page.evaluate(`(async () => {
		for (let top = 0; top < document.documentElement.scrollHeight; top += 600) {
			scrollTo(0, top);
			await new Promise((resolve) => {
				requestAnimationFrame(() => requestAnimationFrame(resolve));
				// A browser on a busy machine may draw nothing for a while.
				setTimeout(resolve, 500);
			});
		}
	})()`);
	await page.locator('.response-card').last().waitFor();
}

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

test.each(names)(
	'the page of %s has the contrast of WCAG AA, cuts no sample, breaks no word and hides no status',
	async (name) => {
		const page = await openPage();
		await page.goto(`${services.get(name)?.url}/docs`);
		await page.evaluate(axe);
		for (const colorScheme of ['light', 'dark'] as const) {
			await page.emulateMedia({ colorScheme });
			await page.locator(`body.${colorScheme}-mode`).waitFor();
			await scrollThrough(page);
			const { violations, passes } = (await page.evaluate(
				`axe.run(document, { runOnly: ['color-contrast', 'scrollable-region-focusable'] })`,
			)) as AxeResults;
			const failures = violations.flatMap(({ id, nodes }) => nodes.map(({ target, html }) => [id, target, html]));
			expect([colorScheme, failures]).toEqual([colorScheme, []]);
			expect(passes.find(({ id }) => id === 'color-contrast')?.nodes.length).toBeGreaterThan(50);
		}
		expect(await page.getByText('const:').filter({ visible: true }).count()).toBe(0);
		for (const width of [1440, 1024, 390]) {
			await page.setViewportSize({ width, height: 900 });
			await scrollThrough(page);
			expect(await page.locator('.markdown table').count()).toBeGreaterThan(0);
			expect([width, await page.evaluate(flaws)]).toEqual([
				width,
				{ page: [], words: [], cells: [], samples: [], tabs: [] },
			]);
		}
	},
);

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
	const { url = '' } = services.get('company-contacts') ?? {};
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

test.each<[string, [term: string, heading: string][]]>([
	[
		'company-contacts',
		[
			['429', 'Limits: 429 and Retry-After'],
			['Retry-After', 'Limits: 429 and Retry-After'],
			['etag', 'A fresh list: ETag'],
			['pagination', 'A copy: changes with pagination'],
			['sandbox', 'A sandbox project'],
		],
	],
	[
		'personal-contacts',
		[
			['429', 'No sandbox, no 429'],
			['sandbox', 'No sandbox, no 429'],
		],
	],
])('a search on the page of %s finds the section that explains a term', async (service, sections) => {
	const page = await openPage();
	await page.goto(`${services.get(service)?.url}/docs`);
	await page
		.getByRole('button', { name: /Search/ })
		.first()
		.click();
	for (const [term, heading] of sections) {
		await page.keyboard.press('Control+A');
		await page.keyboard.type(term);
		await page.getByRole('option', { name: `Heading: ${heading}` }).waitFor();
	}
});
