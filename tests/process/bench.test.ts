import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPgbench } from '@contacts/bench/baselines/pgbench.js';
import type { Comparison } from '@contacts/bench/report.js';
import { toolOf } from '@contacts/testing/launcher.js';
import { accepts } from '@contacts/testing/ports.js';
import { isAlive } from '@contacts/testing/proc.js';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, onTestFinished, test, vi } from 'vitest';

const short = ['--rounds', '1', '--only', 'list, one company'];

interface RunningBench extends RunningProcess {
	/** The folder for everything that it writes to disk. */
	folder: string;
}

/** Starts it as the leader of its own process group, with its own temporary folder. */
async function startBench(...args: string[]): Promise<RunningBench> {
	const folder = await temporaryFolder(0o711);
	const bench = startProcess(process.execPath, [toolOf('bench'), ...args], {
		detached: true,
		env: environmentOf({ TMPDIR: folder }),
	});
	onTestFinished(() => bench.stop('SIGKILL'));
	return Object.assign(bench, { folder });
}

/** The process and the port of its PostgreSQL, as soon as it accepts connections. */
async function postgresOf({ folder }: RunningBench): Promise<{ pid: number; port: number }> {
	const file = () => {
		try {
			const [name = ''] = readdirSync(folder).filter((entry) => entry.startsWith('contacts-bench-'));
			const lines = readFileSync(join(folder, name, 'postgres', 'postmaster.pid'), 'utf8').split('\n');
			return lines[7]?.startsWith('ready') ? { pid: Number(lines[0]), port: Number(lines[3]) } : undefined;
		} catch {
			return undefined;
		}
	};
	return vi.waitUntil(file, { timeout: 30_000, interval: 20 });
}

/** Whether a process of its group still runs: its own, the services, the baselines or the generator. */
function groupIsAlive({ pid }: RunningBench): boolean {
	try {
		return process.kill(-pid, 0);
	} catch {
		return false;
	}
}

async function expectNothingLeft(bench: RunningBench, postgres: { pid: number; port: number }): Promise<void> {
	expect(groupIsAlive(bench)).toBe(false);
	expect(isAlive(postgres.pid)).toBe(false);
	expect(await accepts(postgres.port)).toBe(false);
	expect(readdirSync(bench.folder).filter((name) => name.startsWith('contacts-'))).toEqual([]);
}

test('a run ends by itself, prints a table, writes a JSON result, and leaves nothing behind', async () => {
	const results = await temporaryFolder();
	const file = join(results, 'made', 'bench.json');
	const bench = await startBench(...short, 'upserts, 64 connections', '--seconds', '0.3', '--json', file);
	const postgres = await postgresOf(bench);
	expect(await bench.exit, bench.stderr()).toBe(0);
	await expectNothingLeft(bench, postgres);

	const report = JSON.parse(readFileSync(file, 'utf8'));
	expect(report).toMatchObject({
		version: 2,
		machine: {
			date: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
			cores: expect.any(Number),
			node: process.version,
			postgresql: expect.stringMatching(/^\d+/),
			postgresql_settings: { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' },
		},
		settings: { rounds: 1, seconds: 0.3, profiled: false },
		failures: [],
		seconds: expect.any(Number),
	});
	const [throughput, memory, ...upserts] = report.comparisons as Comparison[];
	if (throughput?.baseline == null || throughput.ratio === null) throw new Error('nothing was compared');
	expect(throughput).toMatchObject({
		scenario: 'list, one company',
		figure: 'throughput',
		unit: '/s',
		baseline: { name: 'raw node:http, same bytes' },
		target: { of: 'cost', atMost: 2 },
		met: process.platform === 'linux' ? expect.any(Boolean) : null,
	});
	const [ours, baseline] = [throughput.ours, throughput.baseline.figures];
	for (const { median, min, max, rounds } of [ours, baseline, throughput.ratio]) {
		expect(median).toBeGreaterThan(0);
		expect([min, max, ...rounds]).toEqual([median, median, median]);
	}
	expect(throughput.ratio.median).toBeCloseTo(ours.median / baseline.median, 10);
	if (process.platform === 'linux') expect(memory).toMatchObject({ figure: 'peak memory', unit: 'MiB' });
	const baselines = upserts.filter(({ figure }) => figure === 'throughput').map(({ baseline }) => baseline?.name);
	expect(baselines).toEqual([
		'no-op Fastify route',
		'our service, saving nothing',
		...(findPgbench() === undefined ? [] : ['pgbench, one statement, 10 clients']),
	]);
	expect(bench.stdout()).toMatch(/^scenario +figure +ours +baseline +ratio/);
	expect(bench.stdout()).toMatch(/^list, one company +throughput .* CPU ≤ 2 +(yes|NO)/m);
	expect(bench.stderr()).toContain('list, one company, round 1 of 1: ours');
});

test('an interrupted run stops everything that it started, and exits with 1', async () => {
	const bench = await startBench(...short, '--seconds', '60');
	const postgres = await postgresOf(bench);
	await vi.waitUntil(() => bench.stderr().includes('round 1 of 1'), { timeout: 30_000 });
	bench.kill('SIGTERM');
	expect(await bench.exit).toBe(1);
	await expectNothingLeft(bench, postgres);
	expect(bench.stdout()).toBe('');
});

test.each([
	[['--only', 'lists'], /Allowed choices are .*list of 10,000/],
	[['--rounds', '0'], /--rounds.*whole number from 1 to 1000/],
	[['--seconds', 'long'], /--seconds.*number from 0.1 to 600/],
	[['fast'], /too many arguments/],
])('reports wrong usage %j with exit code 2, before it starts anything', async (args, complaint) => {
	const bench = await startBench(...args);
	expect(await bench.exit).toBe(2);
	expect(bench.stderr()).toMatch(complaint);
	expect(readdirSync(bench.folder)).toEqual([]);
});
