import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type BrowserContext, chromium, type Page } from 'playwright-core';

/** The window of a visit. */
export interface View {
	width: number;
	height: number;
	isMobile?: boolean;
	colorScheme?: 'light' | 'dark';
}

/** Pages that share nothing with those of another visit. */
export interface Visit {
	context: BrowserContext;
	/** Errors of pages: those on their consoles and uncaught exceptions. */
	complaints: string[];
	/** The URL of every request. */
	requests: string[];
	open(url: string): Promise<Page>;
}

/** One Chromium for many visits, as a start takes longer than most visits. */
export interface Browser {
	visit(view: View): Promise<Visit>;
	close(): Promise<void>;
}

export interface VisitWithProfile extends Visit {
	/** Closes its Chromium, and returns the names of the files in its profile that contain this text. */
	closeAndSearch(text: string): Promise<string[]>;
}

export async function startBrowser(): Promise<Browser> {
	const browser = await chromium.launch(launchOptions());
	return {
		visit: async (view) => watch(await browser.newContext(contextOptions(view))),
		close: () => browser.close(),
	};
}

/** A visit with a separate Chromium, which writes its profile to files. Closing its context ends it. */
export async function visitWithProfile(view: View): Promise<VisitWithProfile> {
	const profile = mkdtempSync(join(tmpdir(), 'contacts-browser-'));
	const context = await chromium.launchPersistentContext(profile, { ...launchOptions(), ...contextOptions(view) });
	return {
		...watch(context),
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

function launchOptions() {
	const executablePath = (process.env.PATH ?? '')
		.split(delimiter)
		.flatMap((folder) => ['chromium', 'chromium-browser', 'google-chrome'].map((name) => join(folder, name)))
		.find((path) => existsSync(path));
	if (executablePath === undefined) throw new Error('These tests need Chromium on the PATH (Debian: chromium).');
	// Chromium has no sandbox for root, as in a container.
	return { executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] };
}

const contextOptions = ({ width, height, isMobile = false, colorScheme = 'light' }: View) => ({
	viewport: { width, height },
	isMobile,
	hasTouch: isMobile,
	colorScheme,
});

function watch(context: BrowserContext): Visit {
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
			await page.locator('input.scalar-password-input').first().waitFor();
			return page;
		},
	};
}
