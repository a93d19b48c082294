import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type BrowserContext, chromium, type Page } from 'playwright-core';

export interface Browser {
	context: BrowserContext;
	/** Errors of pages: those on their consoles and uncaught exceptions. */
	complaints: string[];
	/** The URL of every request. */
	requests: string[];
	open(url: string): Promise<Page>;
	/** Closes it, and returns the names of the files in its profile that contain this text. */
	closeAndSearch(text: string): Promise<string[]>;
}

/** A Chromium with a new profile and a window of this size. */
export async function startBrowser(size: { width: number; height: number; isMobile?: boolean }): Promise<Browser> {
	const executablePath = (process.env.PATH ?? '')
		.split(delimiter)
		.flatMap((folder) => ['chromium', 'chromium-browser', 'google-chrome'].map((name) => join(folder, name)))
		.find((path) => existsSync(path));
	if (executablePath === undefined) throw new Error('These tests need Chromium on the PATH (Debian: chromium).');
	const { width, height, isMobile = false } = size;
	const profile = mkdtempSync(join(tmpdir(), 'contacts-browser-'));
	const context = await chromium.launchPersistentContext(profile, {
		executablePath,
		// Chromium has no sandbox for root, as in a container.
		args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
		viewport: { width, height },
		isMobile,
		hasTouch: isMobile,
	});
	const complaints: string[] = [];
	const requests: string[] = [];
	context.on('console', (message) => {
		if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
	});
	context.on('weberror', (error) => complaints.push(String(error.error())));
	context.on('request', (request) => requests.push(request.url()));
	return {
		context,
		complaints,
		requests,
		async open(url) {
			const page = context.pages()[0] ?? (await context.newPage());
			await page.goto(url);
			await page.locator('.opblock .execute').first().waitFor();
			return page;
		},
		async closeAndSearch(text) {
			await context.close();
			const found = readdirSync(profile, { recursive: true, encoding: 'utf8' }).filter((name) => {
				const path = join(profile, name);
				return statSync(path, { throwIfNoEntry: false })?.isFile() && readFileSync(path).includes(text);
			});
			rmSync(profile, { recursive: true, force: true });
			return found;
		},
	};
}
