import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { toolOf } from '@contacts/testing/launcher.js';
import { isAlive } from '@contacts/testing/proc.js';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { expect, onTestFinished, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const only = ['--only', 'list of one company', 'upserts, 16 connections', '--seconds', '0.2'];

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
	const measures = () => /round 1 of|cycles of/.test(bench.stderr());
	await waitUntil(measures, { timeoutMs: 90_000, message: bench.stderr });
	const [name = ''] = readdirSync(bench.folder).filter((entry) => entry.startsWith('contacts-bench-'));
	return Number(readFileSync(join(bench.folder, name, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0]);
}

/** Whether a process of the group still runs: the bench, a service or a baseline. */
function groupIsAlive({ pid }: RunningBench): boolean {
	try {
		return process.kill(-pid, 0);
	} catch {
		return false;
	}
}

function expectNothingLeft(bench: RunningBench, postgres: number): void {
	expect(groupIsAlive(bench)).toBe(false);
	expect(isAlive(postgres)).toBe(false);
	expect(readdirSync(bench.folder).filter((name) => name.startsWith('contacts-'))).toEqual([]);
}

const figuresOf = (stdout: string) =>
	(JSON.parse(stdout) as { rows: Record<string, string | number>[] }).rows.map(
		({ scenario, figure }) => `${scenario}: ${figure}`,
	);

const loadFigures = [
	'list of one company: requests',
	'list of one company: service CPU',
	'upserts, 16 connections: requests',
	'upserts, 16 connections: service CPU',
	'upserts, 16 connections: PostgreSQL CPU',
];

test('a run against another checkout measures its services in place of the baseline servers', async () => {
	const bench = await startBench(...only, '--rounds', '1', '--against', root, '--json');
	const postgres = await measuring(bench);
	expect(await bench.exit, bench.stderr()).toBe(0);
	expectNothingLeft(bench, postgres);
	expect(figuresOf(bench.stdout())).toEqual([
		'company-contacts: start-up',
		'personal-contacts: start-up',
		...loadFigures,
		'company-contacts: memory after the load',
		'personal-contacts: memory after the load',
	]);
	const { rows, ...settings } = JSON.parse(bench.stdout());
	expect(settings).toEqual({ baseline: root.replace(/\/$/, ''), rounds: 1, seconds: 0.2 });
	for (const { ours, baseline, ratio, pairs } of rows) {
		expect(pairs).toBe(1);
		expect(ratio).toBeGreaterThan(0);
		expect(ratio).toBeCloseTo(ours / baseline, 10);
	}
});

test('a soak compares memory and costs at its end with those at its beginning, and prints a table', async () => {
	const bench = await startBench(...only, '--minutes', '0.1');
	const postgres = await measuring(bench);
	expect(await bench.exit, bench.stderr()).toBe(0);
	expectNothingLeft(bench, postgres);
	for (const figure of [...loadFigures, 'company-contacts: memory', 'personal-contacts: memory']) {
		const [scenario, name] = figure.split(': ');
		expect(bench.stdout()).toMatch(new RegExp(`^${scenario} +${name}( +[\\d.,]+){2} `, 'm'));
	}
});

test('an interrupted run stops all that it started, and exits with 1', async () => {
	const bench = await startBench('--minutes', '60');
	const postgres = await measuring(bench);
	bench.kill('SIGTERM');
	expect(await bench.exit).toBe(1);
	expectNothingLeft(bench, postgres);
	expect(bench.stdout()).toBe('');
	expect(bench.stderr()).toMatch(/^interrupted$/m);
});

test.each([
	[['--only', 'lists'], /Allowed choices are .*list of all/],
	[['--rounds', '0'], /--rounds.*number from 1 to 1000/],
	[['--minutes', 'long'], /--minutes.*number from 0.1 to 10000/],
	[['--against', '/'], /--against.*no built services/],
	[['--against', root, '--minutes', '1'], /cannot be used with/],
	[['fast'], /too many arguments/],
])('reports wrong usage %j with exit code 2, before it starts anything', async (args, complaint) => {
	const bench = await startBench(...args);
	expect(await bench.exit).toBe(2);
	expect(bench.stderr()).toMatch(complaint);
	expect(readdirSync(bench.folder)).toEqual([]);
});
