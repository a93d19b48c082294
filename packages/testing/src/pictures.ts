import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startBrowser } from './browser.js';
import { dispose, launch } from './launcher.js';

/** `npx -y pnpm@12 pictures [FOLDER]`: takes the pictures of docs/pictures from the running product. Needs Chromium. */
const folder = process.argv[2] ?? fileURLToPath(new URL('../../../docs/pictures/', import.meta.url));
const data = await mkdtemp(join(tmpdir(), 'contacts-pictures-'));
const demo = await launch(join(data, 'data'));
try {
	await demo.ready();
	for (const theme of ['light', 'dark'] as const) {
		for (const [name, width, height] of [
			['api-reference', 1280, 800],
			['api-reference-phone', 390, 844],
		] as const) {
			const browser = await startBrowser({ width, height, isMobile: width < 500 });
			await browser.context.pages()[0]?.emulateMedia({ colorScheme: theme });
			const page = await browser.open(`http://127.0.0.1:${demo.ports.company}/docs`);
			await page.getByLabel('Project code').fill('demo');
			await page.getByLabel('API key').fill('demo-key');
			const list = page.locator('.opblock', { hasText: '/api/company_contacts.list' });
			await page.getByPlaceholder('company_id').fill('7');
			await list.locator('.execute').click();
			await list.locator('.live-responses-table').waitFor();
			await page.locator('#try').scrollIntoViewIfNeeded();
			await page.evaluate("document.querySelector('#try').scrollIntoView()");
			await page.screenshot({ path: join(folder, `${name}-${theme}.png`) });
			await browser.context.close();
		}
	}
} finally {
	await dispose(demo);
	await rm(data, { recursive: true, force: true });
}
