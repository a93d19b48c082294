import type { StarvedTime } from '@contacts/testing/starved-time.js';
import type { Judge, Sitting } from '../faults/judges/judge.js';
import { limit } from './applications.js';
import type { Fault } from './faults.js';
import type { Load, Seen } from './load.js';

/** Which machine was the primary since when. Undefined: none. */
export interface Reign {
	at: number;
	primary: string | undefined;
}

export interface Run {
	begun: number;
	ended: number;
	load: Load;
	/** Clients that know what they were promised. */
	sittings: readonly (Pick<Judge, 'name'> & Sitting)[];
	faults: readonly Fault[];
	reigns: readonly Reign[];
	machine: StarvedTime;
}

interface Result {
	lists: number;
	/** Lists that failed while nothing was broken. */
	listsFailedWithoutFault: number;
	listsFailed: number;
	promotions: number;
	/** The longest time without a write in milliseconds: after a promotion, without what a busy machine adds, and in all. */
	longestAfterPromotion: number;
	longestWithoutWrites: number;
	admitted: number;
	/** What the limit admits: burst and rate, plus the same for each process and for a fresh Redis after each outage. */
	admittedLimit: number;
}

const isOk = ({ outcome }: Seen) => outcome === 200;

export function evaluate({ begun, ended, load, faults, reigns, machine }: Run): Result {
	const saved = [...load.saved].sort((a, b) => a - b);
	const moments = [begun, ...saved, ended];
	const promotions = reigns.filter(({ primary }, index) => {
		const before = reigns.slice(0, index).findLast((each) => each.primary !== undefined);
		return primary !== undefined && before !== undefined && before.primary !== primary;
	});
	const failed = load.lists.filter((each) => !isOk(each));
	const isDuring = (at: number) => faults.some((fault) => at >= fault.begun && at <= (fault.whole || ended) + 1000);
	const seconds = (ended - begun) / 1000;
	const away = faults.filter(({ ofRedis }) => ofRedis).map((fault) => (fault.whole - fault.begun) / 1000);
	const processes = 2;
	return {
		lists: load.lists.length,
		listsFailed: failed.length,
		listsFailedWithoutFault: failed.filter(({ at }) => !isDuring(at)).length,
		promotions: promotions.length,
		longestAfterPromotion: Math.max(
			0,
			...promotions.map(({ at }) => machine.own({ begun: at, ended: saved.find((moment) => moment >= at) ?? ended })),
		),
		longestWithoutWrites: moments.reduce((longest, at, index) => Math.max(longest, at - (moments[index - 1] ?? at)), 0),
		admitted: load.admitted.length,
		admittedLimit: Math.floor(
			limit.burst +
				limit.perSecond * seconds +
				away.reduce((sum, time) => sum + (processes + 1) * limit.burst + processes * limit.perSecond * time, 0),
		),
	};
}

function outcomes(seen: readonly Pick<Seen, 'outcome'>[]): string {
	const counts = new Map<Seen['outcome'], number>();
	for (const { outcome } of seen) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
	return [...counts].map(([outcome, count]) => `${outcome}: ${count}`).join(', ');
}

export function table(seed: number, run: Run, result: Result): string {
	const rows: [string, string | number][] = [
		['seed', seed],
		['seconds', Math.round((run.ended - run.begun) / 1000)],
		['faults', run.faults.length],
		['promotions', result.promotions],
		...run.sittings.map(({ name, judged, seen }): [string, string] => [
			`judge ${name}: judged, and responses`,
			`${judged.length}; ${outcomes(seen)}`,
		]),
		['lists', result.lists],
		['responses to lists', outcomes(run.load.lists)],
		['lists failed, of these without a fault', `${result.listsFailed}, ${result.listsFailedWithoutFault}`],
		['longest without writes after a promotion', `${Math.round(result.longestAfterPromotion)} ms`],
		['longest without writes', `${Math.round(result.longestWithoutWrites)} ms`],
		['let through of a project above its limit, at most', `${result.admitted}, ${result.admittedLimit}`],
	];
	return ['| what | how much |', '|---|---|', ...rows.map(([what, value]) => `| ${what} | ${value} |`)].join('\n');
}
