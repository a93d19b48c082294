import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { chromium, type Page } from 'playwright-core';

/** A visit with a Chromium of its own. */
export interface Visit {
	/** Errors of pages: those on their consoles and uncaught exceptions. */
	complaints: string[];
	/** The URL of every request. */
	requests: string[];
	open(url: string): Promise<Page>;
	close(): Promise<void>;
	/** Closes it, and returns the names of the files in its profile that contain this text. */
	closeAndSearch(text: string): Promise<string[]>;
}

export async function startVisit(): Promise<Visit> {
	const profile = mkdtempSync(join(tmpdir(), 'contacts-browser-'));
	const context = await chromium.launchPersistentContext(profile, launchOptions());
	const complaints: string[] = [];
	const requests: string[] = [];
	context.on('console', (message) => {
		if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
	});
	context.on('weberror', (error) => complaints.push(String(error.error())));
	context.on('request', (request) => requests.push(request.url()));
	const close = async () => {
		await context.close();
		rmSync(profile, { recursive: true, force: true });
	};
	return {
		complaints,
		requests,
		async open(url) {
			const page = context.pages()[0] ?? (await context.newPage());
			await page.goto(url);
			await page.locator('input.scalar-password-input').first().waitFor();
			return page;
		},
		close,
		async closeAndSearch(text) {
			await context.close();
			const found = readdirSync(profile, { recursive: true, encoding: 'utf8' }).filter((name) => {
				const path = join(profile, name);
				return statSync(path, { throwIfNoEntry: false })?.isFile() && readFileSync(path).includes(text);
			});
			await close();
			return found;
		},
	};
}

function launchOptions() {
	const executablePath = (process.env.PATH ?? '')
		.split(delimiter)
		.flatMap((folder) => ['chromium', 'chromium-browser', 'google-chrome'].map((name) => join(folder, name)))
		.find((path) => existsSync(path));
	if (executablePath === undefined) throw new Error('These tests need Chromium on the PATH (Debian: chromium).');
	// Chromium has no sandbox for root, as in a container.
	return { executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] };
}
