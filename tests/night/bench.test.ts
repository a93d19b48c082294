import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { toolOf } from '@contacts/testing/launcher.js';
import { isAlive } from '@contacts/testing/proc.js';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { expect, onTestFinished, test } from 'vitest';
import { root } from '../docs/pages.js';

interface RunningBench extends RunningProcess {
	/** The folder for everything that it writes to disk. */
	folder: string;
}

/** Starts the bench in a new process group, with an empty temporary folder. */
async function startBench(...args: string[]): Promise<RunningBench> {
	const folder = await temporaryFolder(0o711);
	const bench = startProcess(process.execPath, [toolOf('bench'), ...args], {
		detached: true,
		env: environmentOf({ TMPDIR: folder }),
	});
	onTestFinished(() => bench.stop('SIGKILL'));
	return Object.assign(bench, { folder });
}

/** Waits until it measures, and returns the process ID of its PostgreSQL. */
async function measuring(bench: RunningBench): Promise<number> {
	await waitUntil(() => /round 1 of/.test(bench.stderr()), { timeoutMs: 90_000, message: bench.stderr });
	const [name = ''] = readdirSync(bench.folder).filter((entry) => entry.startsWith('contacts-bench-'));
	return Number(readFileSync(join(bench.folder, name, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0]);
}

function expectNothingLeft({ pid, folder }: RunningBench, postgres: number): void {
	// The group: the bench, its services and baselines.
	expect(() => process.kill(-pid, 0)).toThrow('ESRCH');
	expect(isAlive(postgres)).toBe(false);
	expect(readdirSync(folder).filter((name) => name.startsWith('contacts-'))).toEqual([]);
}

test.each([[[]], [['--against', root]]])(
	'a run with %j measures both sides, and leaves nothing behind',
	async (more) => {
		const only = ['--only', 'list of one company', 'upserts, 16 connections'];
		const bench = await startBench(...only, '--seconds', '0.2', '--rounds', '1', ...more);
		const postgres = await measuring(bench);
		expect(await bench.exit, bench.stderr()).toBe(0);
		expectNothingLeft(bench, postgres);
		for (const figure of [
			'company-contacts: start-up, ms',
			'list of one company: requests/s',
			'list of one company: CPU of the service, µs',
			'upserts, 16 connections: CPU of PostgreSQL, µs',
			'personal-contacts: memory afterwards, MiB',
		]) {
			const row = bench
				.stdout()
				.split('\n')
				.find((line) => line.includes(figure));
			const [, , ours, baseline, ratio] = row?.split('│').map(Number) ?? [];
			expect(ours, bench.stdout()).toBeGreaterThan(0);
			expect(ratio).toBeCloseTo(Number(ours) / Number(baseline), 1);
		}
	},
);

test('an interrupted run stops all that it started, and exits with 1', async () => {
	const bench = await startBench();
	const postgres = await measuring(bench);
	bench.kill('SIGTERM');
	expect(await bench.exit).toBe(1);
	expectNothingLeft(bench, postgres);
	expect(bench.stdout()).toBe('');
	expect(bench.stderr()).toMatch(/^interrupted$/m);
});

test.each([
	['--only', 'lists'],
	['--rounds', '0'],
	['--against', '/'],
])('exits with 2 for the wrong %s %s, before it starts anything', async (option, value) => {
	const bench = await startBench(option, value);
	expect(await bench.exit).toBe(2);
	expect(bench.stderr()).toContain(option);
	expect(readdirSync(bench.folder)).toEqual([]);
});
