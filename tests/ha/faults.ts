import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '@contacts/testing/random.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import type { Applications } from './applications.js';
import { type DatabaseCluster, postgresOf } from './database-cluster.js';
import { type Machine, signal } from './network.js';
import type { Supervised } from './supervisor.js';

/** One fault. Times are milliseconds of `performance.now()`. */
export interface Fault {
	/** Such as "cut off db1 (primary)". */
	what: string;
	begun: number;
	/** When everything had recovered. */
	whole: number;
	/** Redis could not be reached, or lost its buckets. */
	ofRedis: boolean;
}

interface Target {
	what: string;
	pids(): number[];
}

/** The longest recovery of everything: a former primary may need a new base backup. */
const wholeAgainMs = 120_000;

/** What looks healthy just after a fault may not have noticed it yet. */
const steadyMs = 3000;

/** Injects one fault after the other until this time, each once everything has recovered from the one before. */
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
		// Every second fault is about the primary.
		const machine = pick([primary, primary, pick(database.machines), pick(applications.machines)]);
		const role = machine === primary ? ' (primary)' : '';
		const target = pick<Target>([
			{ what: `${machine.name}${role}`, pids: () => machine.pids() },
			...targetsOn(machine, processes).map(({ what, pids }) => ({ what: `${what}${role}`, pids })),
		]);
		// A primary is down for longer than Patroni waits, so that another machine must take over.
		const forMs = 1000 * (machine === primary ? random.integer(22, 28) : random.integer(5, 12));
		const fault = {
			what: '',
			begun: performance.now(),
			whole: Number.NaN,
			ofRedis: machine === redis,
		};
		faults.push(fault);
		await breakOne(fault, machine, target, pick(['kill', 'freeze', 'cut']), forMs);
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

/** PostgreSQL, and every supervised process there. */
function targetsOn(machine: Machine, processes: readonly Supervised[]): Target[] {
	const supervised = processes
		.filter((each) => each.machine === machine)
		.map(({ name, pids }) => ({ what: name, pids }));
	const hasPostgres = supervised.some(({ what }) => what.startsWith('patroni'));
	return hasPostgres
		? [...supervised, { what: `postgres on ${machine.name}`, pids: () => postgresOf(machine) }]
		: supervised;
}

/** Kills, freezes or disconnects. A killed machine is off meanwhile. The supervisor restarts a killed process. */
async function breakOne(
	fault: Fault,
	machine: Machine,
	{ what, pids }: Target,
	how: 'kill' | 'freeze' | 'cut',
	forMs: number,
): Promise<void> {
	const isMachine = !what.includes(' on ') && what.startsWith(machine.name);
	if (how === 'cut') {
		// A single process can't be disconnected.
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
