import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { childrenOf } from '@contacts/testing/proc.js';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { type Machine, signal } from './network.js';

/** A process that restarts whenever it ends, as systemd does with `Restart=always`. */
export interface Supervised {
	name: string;
	machine: Machine;
	/** Its process ID and those of its children. */
	pids(): number[];
	/** The end of its log. */
	output(): string;
	stop(): Promise<void>;
}

interface Program {
	name: string;
	command: readonly string[];
	env?: Record<string, string>;
	/** Runs as this user. */
	user?: string;
	/** The path of its log. */
	log: string;
}

/** Milliseconds until an ended process restarts: RestartSec of the units. */
const restartAfterMs = 1000;

export function supervise(machine: Machine, { name, command, env = {}, user, log }: Program): Supervised {
	const asUser = user === undefined ? [] : ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'];
	// To a file: children that a killed process leaves behind would hold a pipe open.
	const logged = ['sh', '-c', `exec "$@" >>'${log}' 2>&1`, 'sh'];
	const [program, ...args] = [...machine.inside, ...logged, ...asUser, ...command] as [string, ...string[]];
	writeFileSync(log, '');
	let running: RunningProcess;
	let stopping = false;
	const start = () => {
		running = startProcess(program, args, { env: environmentOf(env), cwd: '/' });
		void running.exit.then(async () => {
			do await delay(restartAfterMs);
			while (machine.isOff && !stopping);
			if (!stopping) start();
		});
	};
	start();
	return {
		name,
		machine,
		pids: () => (running.hasExited ? [] : [running.pid, ...childrenOf(running.pid)]),
		output: () => `${name}:\n${readFileSync(log, 'utf8').slice(-3000)}`,
		async stop() {
			stopping = true;
			for (const pid of this.pids()) signal(pid, 'SIGKILL');
			await running.exit;
		},
	};
}
