import { randomInt } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { accepts } from '@contacts/local-postgres/ports.js';
import { isAlive } from './proc.js';
import { environmentOf, type RunningProcess, startProcess } from './process.js';
import { waitUntil } from './wait-until.js';

/** The path of a built tool. */
export const toolOf = (name: string) => fileURLToPath(new URL(`../../../tools/${name}/dist/main.js`, import.meta.url));

export interface Ports {
	company: number;
	personal: number;
}

export interface Launcher extends RunningProcess {
	dataFolder: string;
	ports: Ports;
	/** Waits until both services are ready. */
	ready(): Promise<void>;
	/** Sends a signal. Returns how the launcher ended, and how the services ended, which share its standard error. */
	end(signal: NodeJS.Signals): Promise<number | string>;
}

/** Two free ports below the ephemeral range, so that no outgoing connection uses them meanwhile. */
export async function freePorts(): Promise<Ports> {
	const company = randomInt(15_000, 32_000);
	const personal = company + 1;
	return (await accepts(company)) || (await accepts(personal)) ? freePorts() : { company, personal };
}

/** Starts `start` as a separate process, on free ports, with these arguments. */
export async function launch(
	dataFolder: string,
	more: Record<string, string> = {},
	...args: string[]
): Promise<Launcher> {
	const ports = await freePorts();
	const env = environmentOf({
		LOCAL_DATA_DIR: dataFolder,
		COMPANY_CONTACTS_PORT: String(ports.company),
		PERSONAL_CONTACTS_PORT: String(ports.personal),
		...more,
	});
	const launcher = startProcess(process.execPath, [toolOf('local'), ...args], { env });
	return Object.assign(launcher, {
		dataFolder,
		ports,
		ready: async () => void (await launcher.waitForLine(/\nReady\./)),
		end(signal: NodeJS.Signals) {
			launcher.kill(signal);
			return launcher.exit;
		},
	});
}

/** Ends it in the clean-up of a test, whatever state the test left it in. */
export async function dispose(launcher: Launcher | undefined): Promise<void> {
	if (launcher === undefined) return;
	await launcher.stop();
	await waitUntil(() => !existsSync(pidFileOf(launcher)), { timeoutMs: 60_000 });
}

const pidFileOf = ({ dataFolder }: Pick<Launcher, 'dataFolder'>) => join(dataFolder, 'postgres', 'postmaster.pid');

export interface Parts {
	/** The services by name, and the database's server. */
	pids: Record<string, number>;
	ports: number[];
}

/** What runs besides the launcher: the services log their process IDs, and the database writes its ID to a file. */
export function partsOf(launcher: Pick<Launcher, 'stderr' | 'dataFolder' | 'ports'>): Parts {
	const pids: Record<string, number> = {};
	// The last line may not be complete yet.
	for (const line of launcher.stderr().split('\n').slice(0, -1)) {
		if (!line.startsWith('{')) continue;
		const { name, pid } = JSON.parse(line) as { name: string; pid: number };
		pids[name] = pid;
	}
	const ports = Object.values(launcher.ports);
	if (existsSync(pidFileOf(launcher))) {
		const [pid, , , port] = readFileSync(pidFileOf(launcher), 'utf8').split('\n');
		pids.database = Number(pid);
		ports.push(Number(port));
	}
	return { pids, ports };
}

/** Those of them that still run. */
export async function remainsOf({ pids, ports }: Parts): Promise<string[]> {
	const processes = Object.entries(pids).flatMap(([name, pid]) => (isAlive(pid) ? [name] : []));
	const open = await Promise.all(ports.map(async (port) => ((await accepts(port)) ? [`port ${port}`] : [])));
	return [...processes, ...open.flat()];
}

/** Runs `contacts` on a local database, and returns what it printed. */
export async function contacts(dataFolder: string, ...args: string[]) {
	const env = environmentOf({ LOCAL_DATA_DIR: dataFolder });
	const command = startProcess(process.execPath, [toolOf('cli'), ...args], { env });
	const code = await command.exit;
	return { code, stdout: command.stdout(), stderr: command.stderr() };
}
