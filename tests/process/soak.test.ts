import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { toolOf } from '@contacts/testing/launcher.js';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, onTestFinished, test } from 'vitest';

interface Soak extends RunningProcess {
	/** The folder for everything that it writes to disk. */
	folder: string;
}

async function startSoak(...args: string[]): Promise<Soak> {
	// PostgreSQL may run as another user.
	const folder = await temporaryFolder(0o711);
	const soak = startProcess(process.execPath, [toolOf('bench'), 'soak', '--file', join(folder, 'chart.svg'), ...args], {
		env: environmentOf({ TMPDIR: folder }),
	});
	onTestFinished(() => soak.stop('SIGKILL'));
	return Object.assign(soak, { folder });
}

/** The number of points of each line of the chart. */
const pointsOf = ({ folder }: Soak) =>
	[...readFileSync(join(folder, 'chart.svg'), 'utf8').matchAll(/<path d="M([^"H]+)" fill="none"/g)].map(
		([, path]) => path?.split('L').length ?? 0,
	);

/** How many samples it has announced. */
const samplesOf = (text: string) => text.match(/^[\d.]+ s: \d+ responses as expected/gm)?.length ?? 0;

const leftIn = ({ folder }: Soak) => readdirSync(folder).filter((name) => name.startsWith('contacts-'));

test('a run of a few seconds sends every kind of request, gets the expected responses, and draws all measurements', async () => {
	const soak = await startSoak('--minutes', '0.05', '--rate', '100');
	expect(await soak.exit, soak.output()).toBe(0);
	expect(soak.stderr()).toBe('');
	expect(soak.stdout()).toMatch(/^upsert +200: \d+$/m);
	expect(soak.stdout()).toMatch(/^filtered list again +.*304: \d+/m);
	expect(soak.stdout()).toMatch(/^[1-9]\d* responses as expected in \d+ s, 0 unexpected, /m);
	expect(soak.stdout()).toMatch(
		/^company-contacts +\d+ MiB +[+−][\d.]+ MiB\/h +\d+ MiB +[+−][\d.]+ MiB\/h +\d+ +[1-9]\d* +[1-9]\d*$/m,
	);
	expect(pointsOf(soak)).toEqual(Array(14).fill(samplesOf(soak.stdout())));
	expect(leftIn(soak)).toEqual([]);
});

test('a service that ends by itself ends the run with exit 1 and the last lines of its log', async () => {
	const soak = await startSoak('--minutes', '1');
	// By then the service has written a part of its log.
	await soak.waitForLine(/^[\d.]+ s: \d+ responses as expected/m);
	process.kill(Number(/personal-contacts is process (\d+)/.exec(soak.stdout())?.[1]), 'SIGKILL');
	expect(await soak.exit).toBe(1);
	expect(soak.stderr()).toMatch(
		/^personal-contacts has ended \(SIGKILL\)\. It said last:\n[\s\S]*"name":"personal-contacts"[^\n]+\}\n/,
	);
	expect(soak.stdout()).toContain('The chart is in');
	expect(leftIn(soak)).toEqual([]);
});

test('Ctrl-C ends the run: no sample is taken after it, and the report has those before it', async () => {
	const soak = await startSoak('--minutes', '0.5', '--rate', '50');
	await soak.waitForLine(/^[\d.]+ s: \d+ responses as expected/m);
	soak.kill('SIGINT');
	expect(await soak.exit, soak.output()).toBe(0);
	const [before = '', after = '', ...more] = soak.stdout().split(/^Interrupted\.$/m);
	expect(more).toEqual([]);
	expect(samplesOf(before)).toBeGreaterThan(0);
	expect(samplesOf(after)).toBe(0);
	expect(after).toMatch(/, 0 unexpected, /);
	expect(Math.max(...pointsOf(soak))).toBe(samplesOf(before));
	expect(leftIn(soak)).toEqual([]);
});

test.each([
	[['--minutes', 'x'], /^error: option '--minutes .* It must be a number from 0.01 to 10000\.$/m],
	[['--rate', '1'], /^error: option '--rate .* It must be a number from 10 to 2000\.$/m],
	[['--unknown'], /^error: unknown option '--unknown'$/m],
])('wrong usage %j: exit 2, with the usage text', async (args, message) => {
	const soak = await startSoak(...args);
	expect(await soak.exit).toBe(2);
	expect(soak.stderr()).toMatch(message);
	expect(soak.stderr()).toContain('Usage: bench soak');
	expect(soak.stdout()).toBe('');
	expect(existsSync(join(soak.folder, 'chart.svg'))).toBe(false);
});
