import { setTimeout as delay } from 'node:timers/promises';
import { childrenOf } from '@contacts/testing/proc.js';
import type { Random } from '@contacts/testing/random.js';
import { type Time, watchStarvedTime } from '@contacts/testing/starved-time.js';
import { expect } from 'vitest';
import type { Kind } from './database.js';
import { always, type Disturbance, disturbances, repeatedMs } from './disturbances.js';
import { copy } from './judges/copy.js';
import { fresh } from './judges/fresh.js';
import { isExcused } from './judges/judge.js';
import { limited } from './judges/limited.js';
import { mirror } from './judges/mirror.js';
import { revoked } from './judges/revoked.js';
import { saved } from './judges/saved.js';
import { skipped } from './judges/skipped.js';
import { type EndedProcess, startSystem } from './system.js';

const judges = [saved, skipped, revoked, limited, fresh, copy, mirror];

/** What a disturbance allows is over, and everything must work again, within so many milliseconds, or judges can't judge. */
const recoveryMs = 15_000;

/** A request from which a busy machine took so many milliseconds may fail. */
const spoiledMs = 1000;

/** What it waits for may have begun so many milliseconds before it: requests share a poll of the database, and new connections. */
const sharedMs = 1000;

interface Played extends Disturbance, Time {
	/** Until when it explains what clients were told. */
	over: number;
	felt: number;
}

/**
 * Starts a system of this kind, and disturbs it in random order while all judges watch. Fails at the first breach of a promise,
 * with its row and the seed. A row that was not felt is a breach too, and so is a judge that has judged nothing since a row.
 *
 * @param isWhole whether to deal all rows that are possible in this kind; otherwise those for which it is the first one
 */
export async function deal(kind: Kind, random: Random, isWhole = false): Promise<void> {
	const isDealt = ({ kinds }: Disturbance) => (isWhole ? kinds.includes(kind) : kinds[0] === kind);
	const [rows, left] = [random.shuffled(disturbances.filter(isDealt)), disturbances.filter((row) => !isDealt(row))];
	const system = await startSystem(kind, random);
	const { personal, company, sync } = system.replicas;
	const services = [...personal, ...company, sync];
	const machine = watchStarvedTime(() => [
		...services.map((replica) => replica.process.pid),
		...childrenOf(system.nginx.pid),
	]);
	const sittings = await Promise.all(
		judges.map(async (judge) => ({ ...judge, ...(await judge.start(system, random)) })),
	);
	const played: Played[] = [];
	const problems: string[] = [];
	const rowAt = ({ begun, ended }: Time) => played.find((row) => ended >= row.begun && begun <= row.over);
	const describe = (judge: string, what: string, time: Time) =>
		`${judge}: ${what} (${rowAt(time)?.name ?? 'between rows'}, ${Math.round(time.begun)} to ${Math.round(time.ended)}, of which the machine took ${Math.round(machine.during(time))} ms)`;

	/** What the judges have found so far, and what clients were told that no row allows. */
	function findings(): string[] {
		return sittings.flatMap(({ name, breaches, seen }) => [
			...breaches.filter((breach) => !isExcused(breach, machine)).map((breach) => describe(name, breach.what, breach)),
			...seen
				.filter(({ outcome }) => !always.includes(outcome))
				.filter((one) => !rowAt(one)?.allows.outcomes.includes(one.outcome))
				.filter(({ begun, ended }) => machine.during({ begun: begun - sharedMs, ended }) < spoiledMs)
				.map((one) => describe(name, `was told ${one.outcome}`, one)),
		]);
	}
	async function allJudgeAgain(since: number, after: string): Promise<void> {
		const begun = performance.now();
		for (const { name, judged } of sittings)
			while (!(Number(judged.at(-1)) > since)) {
				await delay(20);
				if (machine.own({ begun, ended: performance.now() }) < recoveryMs) continue;
				return void problems.push(`${name}: could judge nothing for ${recoveryMs} ms ${after}`);
			}
	}
	try {
		await allJudgeAgain(0, 'at the begin');
		for (const row of rows) {
			const begun = performance.now();
			let felt = 0;
			do felt = await row.run(system, random);
			while (!(felt > 0) && performance.now() < begun + repeatedMs);
			const ended = performance.now();
			const over = ended + row.allows.forMs;
			played.push({ ...row, begun, ended, over, felt });
			if (!(felt > 0)) problems.push(`${row.name}: it was not felt`);
			await delay(row.allows.forMs);
			await allJudgeAgain(over, `after: ${row.name}`);
			if (problems.length > 0 || findings().length > 0) break;
		}
	} finally {
		const { changes, awayMs } = system.redis;
		for (const { name, stop } of sittings)
			await stop({ own: system.ownLimits, changes, awayMs }).catch((error) => problems.push(`${name}: ${error}`));
		problems.push(...findings().slice(0, 20));
		machine.stop();
		problems.push(...(await system.stop()).flatMap(wrongEnd));
		console.info(table(kind, played, sittings, left));
	}
	const file = isWhole
		? '--config tests/night/vitest.config.ts disturbances'
		: `tests/faults/disturbances-${kind}.test.ts`;
	expect(problems, `FAULTS_SEED=${random.seed} npx -y pnpm@12 exec vitest run ${file} repeats it`).toEqual([]);
}

/** Every process ends only as it was told to, and writes nothing but its log, whose lines are JSON. */
function wrongEnd({ name, code, killedBy, stdout, stderr }: EndedProcess): string[] {
	const problems: string[] = [];
	// What runs a synchroniser starts it again when it has lost its session, which it says in a line for people.
	const hasLostSession = name === 'crm-sync' && code === 1 && /^The synchroniser ends, to be [^\n]+\n$/.test(stderr);
	if (!hasLostSession && code !== (killedBy ?? 0) && !(killedBy === 'SIGTERM' && code === 0))
		problems.push(`${name} ended with ${code}`);
	if (!hasLostSession && stderr !== '') problems.push(`${name} wrote on standard error: ${stderr.slice(0, 500)}`);
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

/** What showed that each row was felt, and how often each judge has judged during and after it. */
function table(
	kind: Kind,
	played: readonly Played[],
	sittings: readonly { name: string; judged: readonly number[] }[],
	left: readonly Disturbance[],
): string {
	const lines = played.map(({ name, begun, ended, over, felt }) => {
		const counts = sittings.map(
			(each) => `${each.name} ${each.judged.filter((at) => at >= begun && at <= over).length}`,
		);
		return `  ${name} (${(begun / 1000).toFixed(1)} to ${(ended / 1000).toFixed(1)} s): felt ${felt}, ${counts.join(', ')}`;
	});
	const rest = left.length === 0 ? [] : [`  not dealt here: ${left.map(({ name }) => name).join('; ')}`];
	return [`${kind}: judged during each disturbance:`, ...lines, ...rest].join('\n');
}
