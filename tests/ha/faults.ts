import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '@contacts/testing/random.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import type { Applications } from './applications.js';
import { type DatabaseCluster, postgresOf } from './database-cluster.js';
import { type Machine, signal } from './network.js';
import type { Supervised } from './supervisor.js';

/** Something that was broken. Times are milliseconds of `performance.now()`. */
export interface Fault {
	/** Such as "cut off db1 (primary)". */
	what: string;
	machine: string;
	begun: number;
	ended: number;
	/** When everything was whole again. */
	whole: number;
	/** Redis could not be reached, or lost its buckets. */
	ofRedis: boolean;
}

interface Target {
	what: string;
	pids(): number[];
}

/** How long it takes at the most until everything is whole again: a former primary may have to be copied anew. */
const wholeAgainMs = 120_000;

/** What looks whole just after a fault may not have noticed it yet. */
const steadyMs = 3000;

/** Breaks one thing after the other until this time, each when everything is whole again after the one before. */
export async function breakThings(
	until: number,
	database: DatabaseCluster,
	applications: Applications,
	random: Random,
	faults: Fault[],
): Promise<void> {
	const pick = <T>(items: readonly T[]) => items[random.integer(0, items.length - 1)] as T;
	const processes = [...database.processes, ...applications.processes];
	const redis = applications.machines.at(-1);
	while (performance.now() < until) {
		const name = await database.primary();
		const primary = database.machines.find((machine) => machine.name === name) ?? pick(database.machines);
		// Each time in two about the primary.
		const machine = pick([primary, primary, pick(database.machines), pick(applications.machines)]);
		const role = machine === primary ? ' (primary)' : '';
		const target = pick<Target>([
			{ what: `${machine.name}${role}`, pids: () => machine.pids() },
			...targetsOn(machine, processes).map(({ what, pids }) => ({ what: `${what}${role}`, pids })),
		]);
		// A primary for longer than Patroni waits, so that another one must take over.
		const forMs = 1000 * (machine === primary ? random.integer(22, 28) : random.integer(5, 12));
		const fault = {
			what: '',
			machine: machine.name,
			begun: performance.now(),
			ended: Number.NaN,
			whole: Number.NaN,
			ofRedis: machine === redis,
		};
		faults.push(fault);
		await breakOne(fault, machine, target, pick(['kill', 'freeze', 'cut']), forMs);
		fault.ended = performance.now();
		let since = Number.POSITIVE_INFINITY;
		const isWhole = async () => {
			const now = performance.now();
			const whole = (await database.isWhole()) && (await applications.areReady());
			since = whole ? Math.min(since, now) : Number.POSITIVE_INFINITY;
			return now - since > steadyMs;
		};
		await waitUntil(isWhole, {
			timeoutMs: wholeAgainMs,
			intervalMs: 250,
			message: () => `not whole again after: ${fault.what}`,
		});
		fault.whole = since;
		await delay(random.integer(0, 2000));
	}
}

/** PostgreSQL, and whatever is supervised there. */
function targetsOn(machine: Machine, processes: readonly Supervised[]): Target[] {
	const supervised = processes
		.filter((each) => each.machine === machine)
		.map(({ name, pids }) => ({ what: name, pids }));
	const hasPostgres = supervised.some(({ what }) => what.startsWith('patroni'));
	return hasPostgres
		? [...supervised, { what: `postgres on ${machine.name}`, pids: () => postgresOf(machine) }]
		: supervised;
}

/** Kills, freezes or cuts off; a machine is off while it is killed, and a process is started again by its supervisor. */
async function breakOne(
	fault: Fault,
	machine: Machine,
	{ what, pids }: Target,
	how: 'kill' | 'freeze' | 'cut',
	forMs: number,
): Promise<void> {
	const isMachine = !what.includes(' on ') && what.startsWith(machine.name);
	if (how === 'cut') {
		// A process alone can't be cut off.
		fault.what = `cut off ${machine.name}${what.endsWith('(primary)') ? ' (primary)' : ''}`;
		machine.cut();
		await delay(forMs);
		machine.join();
	} else if (how === 'kill') {
		fault.what = `kill ${what}`;
		machine.isOff = isMachine;
		for (const pid of pids()) signal(pid, 'SIGKILL');
		if (isMachine) await delay(forMs);
		machine.isOff = false;
	} else {
		fault.what = `freeze ${what}`;
		const frozen = pids();
		for (const pid of frozen) signal(pid, 'SIGSTOP');
		await delay(forMs);
		for (const pid of frozen) signal(pid, 'SIGCONT');
	}
}
