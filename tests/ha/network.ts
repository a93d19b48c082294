import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { isAlive } from '@contacts/testing/proc.js';

/** A machine of the test: a network namespace with its own address. */
export interface Machine {
	name: string;
	address: string;
	/** The command prefix that runs a program there. */
	inside: string[];
	/**
	 * Runs a program there until it ends, and returns its output.
	 *
	 * @throws Error when its exit code is not 0
	 */
	run(command: string, ...args: string[]): string;
	/** The IDs of its processes. */
	pids(): number[];
	/** Whether its power is off: nothing starts on it. */
	isOff: boolean;
	/** Drops all traffic to and from it until it joins again. */
	cut(): void;
	join(): void;
}

export interface Network {
	/** The address of this process. */
	address: string;
	addresses: string;
	/** @param host the last part of its address */
	machine(name: string, host: number): Machine;
	/** Ends every process in it, and takes it down. */
	remove(): void;
}

const ip = (...args: string[]) => execFileSync('ip', args, { encoding: 'utf8', stdio: 'pipe' });

/** A switch that connects the machines. It has its own namespace, so that no filter of this host applies. Needs root. */
export function createNetwork(): Network {
	removeLeft();
	const prefix = `ha${process.pid}`;
	const hub = `${prefix}-hub`;
	const address = '10.177.17.1';
	const names: string[] = [];
	const addNamespace = (name: string) => {
		ip('netns', 'add', name);
		names.push(name);
		ip('-n', name, 'link', 'set', 'lo', 'up');
	};
	addNamespace(hub);
	ip('-n', hub, 'link', 'add', 'bridge', 'type', 'bridge');
	ip('-n', hub, 'link', 'set', 'bridge', 'up');
	const connect = (port: string, ...end: string[]) => {
		ip('link', 'add', ...end, 'type', 'veth', 'peer', 'name', port, 'netns', hub);
		ip('-n', hub, 'link', 'set', port, 'master', 'bridge', 'up');
	};
	connect('here', 'name', prefix);
	ip('address', 'add', `${address}/24`, 'dev', prefix);
	ip('link', 'set', prefix, 'up');

	return {
		address,
		addresses: '10.177.17.0/24',
		machine(name, host) {
			const namespace = `${prefix}-${name}`;
			const own = `10.177.17.${host}`;
			const inside = ['netns', 'exec', namespace];
			addNamespace(namespace);
			connect(name, 'name', 'eth0', 'netns', namespace);
			ip('-n', namespace, 'address', 'add', `${own}/24`, 'dev', 'eth0');
			ip('-n', namespace, 'link', 'set', 'eth0', 'up');
			return {
				name,
				address: own,
				inside: ['ip', ...inside],
				run: (...command) => ip(...inside, ...command),
				pids: () => pidsOf(namespace),
				isOff: false,
				cut: () => void ip('-n', hub, 'link', 'set', name, 'down'),
				join: () => void ip('-n', hub, 'link', 'set', name, 'up'),
			};
		},
		remove() {
			for (const name of names.splice(0)) remove(name);
		},
	};
}

/** Removes what a killed run left behind. */
function removeLeft(): void {
	for (const [name, pid] of ip('netns', 'list').matchAll(/^ha(\d+)-\w+/gm)) if (!isAlive(Number(pid))) remove(name);
}

function remove(name: string): void {
	for (const pid of pidsOf(name)) signal(pid, 'SIGKILL');
	ip('netns', 'delete', name);
}

const pidsOf = (name: string) => ip('netns', 'pids', name).split('\n').filter(Boolean).map(Number);

/** Sends a signal to a process that may have ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
	try {
		process.kill(pid, name);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
	}
}

/** A file of operations/ha with these values, as `envsubst` would fill it in. */
export function fillIn(file: string, values: Record<string, string>, target?: string): string {
	const text = readFileSync(new URL(`../../operations/ha/${file}`, import.meta.url), 'utf8')
		.replace(/^#.*\n/gm, '')
		.replaceAll(/\$\{([A-Z0-9_]+)\}/g, (_, name: string) => values[name] as string);
	if (target !== undefined) writeFileSync(target, text, { mode: 0o644 });
	return text;
}
