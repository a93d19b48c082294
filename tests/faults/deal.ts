import { setTimeout as delay } from 'node:timers/promises';
import { watchDelays } from '@contacts/testing/machine-delays.js';
import type { Random } from '@contacts/testing/random.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { expect } from 'vitest';
import type { Disturbance } from './disturbances.js';
import { copy } from './judges/copy.js';
import { fresh } from './judges/fresh.js';
import type { Breach, Outcome } from './judges/judge.js';
import { limited } from './judges/limited.js';
import { mirror } from './judges/mirror.js';
import { revoked } from './judges/revoked.js';
import { saved } from './judges/saved.js';
import { skipped } from './judges/skipped.js';
import { type EndedProcess, startSystem } from './system.js';

const judges = [saved, skipped, revoked, limited, fresh, copy, mirror];

/** What clients may always be told: a success, that the limit is exceeded, that a key is unknown, and that the service has no time. */
const always: readonly Outcome[] = [200, 401, 429, 503];

interface Row {
	name: string;
	begun: number;
	ended: number;
	/** Until when it explains what clients were told. */
	over: number;
}

/** Starts a system, disturbs it in random order while all judges watch, and fails with every breach, its row and the seed. */
export async function deal(rows: readonly Disturbance[], random: Random): Promise<void> {
	const stopWatching = watchDelays(() => delay(0));
	const system = await startSystem();
	const sittings = await Promise.all(
		judges.map(async (judge) => ({ ...judge, sitting: await judge.start(system, random) })),
	);
	const timeline: Row[] = [];
	const breaches: string[] = [];
	const rowAt = ({ begun, ended }: { begun: number; ended: number }) =>
		timeline.find((row) => ended >= row.begun && begun <= row.over);
	try {
		const haveJudged = () => sittings.every(({ sitting }) => sitting.judged.length > 0);
		await waitUntil(haveJudged, { timeoutMs: 60_000, message: () => 'a judge has nothing to judge' });
		for (const { name, run, allows } of random.shuffled(rows)) {
			const begun = performance.now();
			const felt = await run(system, random);
			const ended = performance.now();
			timeline.push({ name, begun, ended, over: ended + allows.forMs });
			if (!(felt > 0)) breaches.push(`${name}: it was not felt`);
			await delay(allows.forMs + 500);
		}
	} finally {
		const machine = await stopWatching();
		const circumstances = {
			delayedMs: ({ begun, ended }: { begun: number; ended: number }) => machine.during(begun, ended),
			redis: { changes: 0, awayMs: 0 },
		};
		const show = (judge: string, { what, begun, ended }: Breach) =>
			breaches.push(`${judge}: ${what} (${rowAt({ begun, ended })?.name ?? 'between rows'})`);
		for (const { name, sitting } of sittings)
			for (const breach of await sitting.stop(circumstances)) show(name, breach);
		for (const { name, sitting } of sittings) {
			const unexplained = sitting.seen.filter(({ outcome, begun, ended }) => {
				const row = rows.find((each) => each.name === rowAt({ begun, ended })?.name);
				return !always.includes(outcome) && !row?.allows.outcomes.includes(outcome);
			});
			for (const { outcome, ...time } of unexplained.slice(0, 5)) show(name, { what: `was told ${outcome}`, ...time });
		}
		breaches.push(...(await system.stop()).flatMap(wrongEnd));
		printTable(timeline, sittings);
	}
	expect(breaches, `FAULTS_SEED=${random.seed} repeats it`).toEqual([]);
}

/** Every process ends only as it was told to, and writes nothing but its log, whose lines are JSON. */
function wrongEnd({ name, code, killedBy, stdout, stderr }: EndedProcess): string[] {
	const problems: string[] = [];
	if (code !== (killedBy ?? 0) && !(killedBy === 'SIGTERM' && code === 0)) problems.push(`${name} ended with ${code}`);
	if (stderr !== '') problems.push(`${name} wrote on standard error: ${stderr.slice(0, 500)}`);
	for (const line of stdout.split('\n').slice(0, -1)) {
		try {
			const { level, msg } = JSON.parse(line) as { level: string; msg: string };
			if (level === 'fatal' || /unexpected error/.test(msg)) problems.push(`${name} logged ${line}`);
		} catch {
			problems.push(`${name} wrote a line that is no JSON: ${line}`);
		}
	}
	return problems;
}

/** How often each judge has judged during and after each row. */
function printTable(
	timeline: readonly Row[],
	sittings: readonly { name: string; sitting: { judged: readonly number[] } }[],
): void {
	const lines = timeline.map(({ name, begun, ended, over }) => {
		const counts = sittings.map(
			(each) => `${each.name} ${each.sitting.judged.filter((at) => at >= begun && at <= over).length}`,
		);
		return `  ${name} (${((ended - begun) / 1000).toFixed(1)} s): ${counts.join(', ')}`;
	});
	console.info(['judged during each disturbance:', ...lines].join('\n'));
}
