import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { cpuSecondsOf, stolenMsIn } from './proc.js';
import { startProcess } from './process.js';
import { type StarvedTime, watchStarvedTime } from './starved-time.js';

function watch(...pids: number[]): StarvedTime {
	const machine = watchStarvedTime(() => pids);
	onTestFinished(() => machine.stop());
	return machine;
}

/** A process that works without a pause, on the first processor. */
function startLoop(): number {
	const loop = startProcess('taskset', ['-c', '0', process.execPath, '-e', 'for (;;);']);
	onTestFinished(() => loop.stop('SIGKILL'));
	return loop.pid;
}

test('work that blocks the event loop is not excused, on a busy machine either', () => {
	startLoop();
	startLoop();
	const machine = watch();
	const begun = performance.now();
	const before = cpuSecondsOf(process.pid);
	// The collector of garbage has threads of its own, whose time is counted here.
	while (cpuSecondsOf(process.pid) - before < 1.5);
	expect(machine.own({ begun, ended: performance.now() })).toBeGreaterThan(1000);
});

test('work of a process is not excused by others that wait meanwhile', async () => {
	const [pid] = [startLoop(), startLoop()];
	const machine = watch(pid, startLoop());
	const begun = performance.now();
	const before = cpuSecondsOf(pid);
	while (cpuSecondsOf(pid) - before < 1) await delay(20);
	expect(machine.own({ begun, ended: performance.now() })).toBeGreaterThan(500);
});

test('the time in which a process has no processor because of others is excused', async () => {
	const [pid] = [startLoop(), startLoop()];
	const machine = watch(pid);
	const begun = performance.now();
	await delay(1000);
	const ended = performance.now();
	expect(machine.during({ begun, ended })).toBeGreaterThan(250);
	// A moment is never less than nothing, however long a process waited around it.
	expect(machine.own({ begun: ended, ended })).toBe(0);
});

test('the time that a hypervisor takes is read for each processor', () => {
	const stat = 'cpu  26 2 4 15 9 0 4 9 1 0\ncpu0 13 1 2 7 4 0 2 3 1 0\ncpu1 13 1 2 8 5 0 2 6 0 0\nintr 10 20\n';
	expect(stolenMsIn(stat)).toEqual([30, 60]);
	expect(stolenMsIn().length).toBeGreaterThan(0);
});
