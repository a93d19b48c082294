import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startBrowser } from './browser.js';
import { drawPanels } from './chart.js';
import { readPanels, startPrometheus } from './dashboard.js';
import { dispose, type Launcher, launch } from './launcher.js';
import { openLoop } from './load.js';

/**
 * `npx -y pnpm@12 pictures [FOLDER]`: creates the pictures of docs/pictures from the running product. Needs Chromium and
 * Prometheus.
 */
const folder = process.argv[2] ?? fileURLToPath(new URL('../../../docs/pictures/', import.meta.url));

/** The seconds of load in the dashboard's picture. */
const seconds = 90;

const data = await mkdtemp(join(tmpdir(), 'contacts-pictures-'));
await mkdir(folder, { recursive: true });
const demo = await launch(join(data, 'data'), {}, '--with-crm');
try {
	await demo.ready();
	await takeReference(demo);
	await drawLoad(demo);
} finally {
	await dispose(demo);
	await rm(data, { recursive: true, force: true });
}

/** The API reference with the response to a request, light and dark, on a screen and on a phone. */
async function takeReference({ ports }: Launcher): Promise<void> {
	const browser = await startBrowser();
	for (const colorScheme of ['light', 'dark'] as const) {
		for (const [name, width, height] of [
			['api-reference', 1280, 800],
			['api-reference-phone', 390, 844],
		] as const) {
			const { open, context } = await browser.visit({ width, height, isMobile: width < 500, colorScheme });
			const page = await open(`http://127.0.0.1:${ports.company}/docs`);
			await page.getByLabel('Project code').fill('demo');
			await page.getByLabel('API key').fill('demo-key');
			const list = page.locator('.opblock', { hasText: '/api/company_contacts.list' });
			await list.locator('.execute').click();
			await list.locator('.live-responses-table').waitFor();
			await page.evaluate("document.querySelector('#try').scrollIntoView()");
			await page.screenshot({ path: join(folder, `${name}-${colorScheme}.png`) });
			await context.close();
		}
	}
	await browser.close();
}

/** The dashboard under a load that exceeds the token bucket of its project after a while. */
async function drawLoad({ ports, output }: Launcher): Promise<void> {
	const synchroniser = /synchroniser\S*\s+http:\/\/(127\.0\.0\.1:\d+)/i.exec(output())?.[1];
	if (synchroniser === undefined) throw new Error(output());
	const prometheus = await startPrometheus(data, {
		'personal-contacts': `127.0.0.1:${ports.personal}`,
		'company-contacts': `127.0.0.1:${ports.company}`,
		'company-contacts-sync': synchroniser,
	});
	try {
		const credentials = 'project=demo&api_key=demo-key';
		await Promise.all([
			openLoop(`http://127.0.0.1:${ports.company}`, 9, seconds, (n) => ({
				method: 'GET',
				path: `/api/company_contacts.list?company_id=${1 + (n % 20)}&${credentials}`,
			})),
			openLoop(`http://127.0.0.1:${ports.personal}`, 60, seconds, (n) => ({
				method: 'POST',
				path: `/api/personal_contacts?${credentials}`,
				body: JSON.stringify({ chat_id: 1 + (n % 5000), name: `Chat ${n}` }),
			})),
		]);
		const picture = drawPanels('The dashboard under load', await readPanels(prometheus, seconds));
		await writeFile(join(folder, 'dashboard.svg'), picture);
	} finally {
		await prometheus.stop();
	}
}
