import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from '@contacts/testing/test.js';
import type { AxeResults } from 'axe-core';
import { expect, vi } from 'vitest';
import { openPage, scrollThrough, serviceNames, startReference, stopReference, urlOf } from '../reference-page.js';

// On a busy machine a browser takes its time.
vi.setConfig({ testTimeout: 300_000 });

test.beforeAll(startReference);
test.afterAll(stopReference);

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

test.each(serviceNames)('the page of %s has the contrast of WCAG AA', async (name) => {
	const page = await openPage();
	await page.goto(`${urlOf(name)}/docs`);
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
	await page.goto(`${urlOf(service)}/docs`);
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
