import { execFileSync } from 'node:child_process';
import type { RunningService } from '@contacts/testing/services.js';
import { type Browser, chromium, type Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import { startService } from './services.js';

export const serviceNames = ['company-contacts', 'personal-contacts'] as const;
const services = new Map<string, RunningService>();
let browser: Browser;

/** Starts both services and a browser. */
export async function startReference(): Promise<void> {
	const executablePath = execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim();
	browser = await chromium.launch({ executablePath });
	for (const name of serviceNames) services.set(name, await startService(name));
}

export async function stopReference(): Promise<void> {
	await browser.close();
	for (const service of services.values()) await service.stop();
}

export const urlOf = (name: string) => String(services.get(name)?.url);

export async function openPage(): Promise<Page> {
	const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'light' });
	onTestFinished(() => context.close());
	context.setDefaultTimeout(120_000);
	return context.newPage();
}

/** Shows the reference from its beginning to its end, as it renders what comes into sight. */
export async function scrollThrough(page: Page): Promise<void> {
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
