import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';

interface Soak {
	child: ChildProcess;
	/** Everything that it has written so far to standard output, and to standard error. */
	output(): string;
	errors(): string;
	/** Its exit code, or the signal that ended it. */
	exit: Promise<number | string>;
	/** The SVG document that it wrote. */
	chart(): string;
	/** What remains of its database. */
	remains(): string[];
}

function start(...args: string[]): Soak {
	const folder = mkdtempSync(join(tmpdir(), 'contacts-soak-test-'));
	onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
	const main = fileURLToPath(new URL('../../tools/soak/dist/main.js', import.meta.url));
	const child = spawn(process.execPath, [main, '--file', join(folder, 'chart.svg'), ...args], {
		env: { ...process.env, TMPDIR: folder },
		stdio: ['ignore', 'pipe', 'pipe'],
	});
	onTestFinished(() => void child.kill('SIGKILL'));
	let written = '';
	let complaints = '';
	child.stdout.setEncoding('utf8').on('data', (text) => {
		written += text;
	});
	child.stderr.setEncoding('utf8').on('data', (text) => {
		complaints += text;
	});
	return {
		child,
		output: () => written,
		errors: () => complaints,
		exit: once(child, 'close').then(([code, signal]) => code ?? signal),
		chart: () => readFileSync(join(folder, 'chart.svg'), 'utf8'),
		remains: () => readdirSync(folder).filter((name) => name.startsWith('contacts-')),
	};
}
const running = (soak: Soak) => expect.poll(soak.output, { timeout: 25_000 }).toContain('Running for');

test('a run of a few seconds sends every kind of request, gets the expected responses, and draws all measurements', async () => {
	const soak = start('--minutes', '0.05', '--rate', '100');
	expect(await soak.exit).toBe(0);
	expect(soak.errors()).toBe('');
	expect(soak.output()).toMatch(/upsert +200: \d+\n/);
	expect(soak.output()).toMatch(/list asked for again +.*304: \d+/);
	expect(soak.output()).toMatch(/\n\d+ answers as expected in 3 s \(\d+ a second\), 0 unexpected, /);
	expect(soak.output()).toMatch(
		/company-contacts: \d+ MiB resident, .*, [1-9]\d* sockets, [1-9]\d* connections in PostgreSQL\n/,
	);
	expect(soak.output()).toMatch(/over the second half: [+−][\d.]+ MiB an hour resident, /);
	const lines = [...soak.chart().matchAll(/<path d="M([^"H]+)" fill="none"/g)].map(
		([, path]) => path?.split('L').length,
	);
	expect(lines).toHaveLength(14);
	for (const points of lines) expect(points).toBeGreaterThan(5);
	expect(soak.remains()).toEqual([]);
});

test('a service that ends by itself ends the run with exit 1 and the last lines of its log', async () => {
	const soak = start('--minutes', '10');
	await running(soak);
	process.kill(Number(/personal-contacts is process (\d+)/.exec(soak.output())?.[1]), 'SIGKILL');
	expect(await soak.exit).toBe(1);
	expect(soak.errors()).toMatch(/^personal-contacts has ended \(SIGKILL\)\. It said last:\n/);
	expect(soak.output()).toContain('The chart is in');
	expect(soak.remains()).toEqual([]);
});

test('Ctrl-C ends the run early, and the report has the samples so far', async () => {
	const soak = start('--minutes', '10', '--rate', '50');
	await running(soak);
	soak.child.kill('SIGINT');
	expect(await soak.exit).toBe(0);
	expect(soak.output()).toMatch(/ 0 unexpected, /);
	expect(soak.chart()).toMatch(/^<svg /);
	expect(soak.remains()).toEqual([]);
});

test.each([
	[['--minutes', 'x'], /^--minutes must be a number from 0.01 to 10000\.\n/],
	[['--rate', '1'], /^--rate must be a number from 10 to 2000\.\n/],
	[['--unknown'], /^Unknown option '--unknown'/],
])('wrong usage %j: exit 2, with the usage text', async (args, message) => {
	const soak = start(...args);
	expect(await soak.exit).toBe(2);
	expect(soak.errors()).toMatch(message);
	expect(soak.errors()).toContain('Usage: ');
	expect(soak.output()).toBe('');
});
