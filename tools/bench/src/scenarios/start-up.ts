import { setTimeout as delay } from 'node:timers/promises';
import { memoryOf } from '@contacts/testing/proc.js';
import { type Bench, type Scenario, type ServiceName, startReference, startService } from '../bench.js';
import { type Comparison, compare } from '../report.js';
import { interleave, type Subject } from '../rounds.js';
import { startServer } from '../servers.js';

const services: ServiceName[] = ['company-contacts', 'personal-contacts'];

const bareServer = 'bare node:http server';

/** The smallest possible server: its start is the start of Node.js itself. */
const bare = `require('node:http').createServer((_, r) => r.end('ok')).listen(process.env.PORT, '127.0.0.1');
	process.once('disconnect', () => process.exit(0));`;

export const startUp: Scenario = {
	name: 'start-up',
	async run(bench) {
		const subject = (name: string, start: () => ReturnType<typeof startServer>): Subject<number> => ({
			name,
			async measure() {
				const server = await start();
				await server.stop();
				return server.startedIn;
			},
		});
		return compareServices(bench, 'start-up', 'time', 'ms', {
			bare: subject(bareServer, () => startServer(bench.lifetime, { args: ['-e', bare], env: {} })),
			...Object.fromEntries(services.map((name) => [name, subject(name, () => startService(bench, name, 'start-up'))])),
		});
	},
};

/** Seconds of rest before the memory is read. */
const rest = 2;

export const memoryAtRest: Scenario = {
	name: 'memory at rest',
	long: true,
	async run(bench) {
		const subject = (name: string, start: () => ReturnType<typeof startServer>): Subject<number> => ({
			name,
			async measure() {
				const server = await start();
				await delay(rest * 1000);
				const memory = memoryOf(server.pid);
				await server.stop();
				if (memory === undefined) throw new Error('this system does not tell the memory of a process in /proc');
				return memory.resident;
			},
		});
		return compareServices(bench, 'memory at rest', 'memory at rest', 'MiB', {
			bare: subject(bareServer, () => startReference(bench, 'same-bytes')),
			...Object.fromEntries(
				services.map((name) => [name, subject(name, () => startService(bench, name, 'memory at rest'))]),
			),
		});
	},
};

async function compareServices(
	bench: Bench,
	scenario: string,
	figure: 'time' | 'memory at rest',
	unit: 'ms' | 'MiB',
	subjects: Record<string, Subject<number>>,
): Promise<Comparison[]> {
	const measured = await interleave(subjects, bench.settings.rounds, (text) => bench.progress(`${scenario}, ${text}`));
	return services.map((name) =>
		compare({
			scenario: `${scenario}, ${name}`,
			figure,
			unit,
			ours: measured[name] ?? [],
			reference: { name: bareServer, values: measured.bare ?? [] },
		}),
	);
}
