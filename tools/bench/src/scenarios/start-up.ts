import { setTimeout as delay } from 'node:timers/promises';
import { memoryOf } from '@contacts/testing/proc.js';
import { type Scenario, type ServiceName, startService } from '../bench.js';
import { type Comparison, compare } from '../report.js';
import { interleave, type Subject } from '../rounds.js';
import { startServer } from '../servers.js';

const services: ServiceName[] = ['company-contacts', 'personal-contacts'];

const bareServer = 'bare node:http server';

/** The smallest possible server: its start is the start of Node.js itself. */
const bare = `require('node:http').createServer((_, r) => r.end('ok')).listen(process.env.PORT, '127.0.0.1');
	process.once('disconnect', () => process.exit(0));`;

/** Seconds of rest before the memory is read. */
const rest = 2;

interface Start {
	milliseconds: number;
	/** MiB after a rest. Undefined where the system does not report it. */
	resident: number | undefined;
}

const name = 'start-up';

export const startUp: Scenario = {
	name,
	async run(bench) {
		const subject = (label: string, start: () => ReturnType<typeof startServer>): Subject<Start> => ({
			name: label,
			async measure() {
				const server = await start();
				await delay(rest * 1000);
				const resident = memoryOf(server.pid)?.resident;
				await server.stop();
				return { milliseconds: server.startedIn, resident };
			},
		});
		const measured = await interleave(bench, name, bench.settings.rounds, {
			bare: subject(bareServer, () => startServer(bench.lifetime, { args: ['-e', bare], env: {} })),
			'company-contacts': subject('company-contacts', () => startService(bench, 'company-contacts', name)),
			'personal-contacts': subject('personal-contacts', () => startService(bench, 'personal-contacts', name)),
		});
		const compareWith = (figure: 'time' | 'memory at rest', unit: 'ms' | 'MiB', of: (start: Start) => number[]) =>
			services.map((service): Comparison => {
				const ours = measured[service].flatMap(of);
				const baseline = { name: bareServer, values: measured.bare.flatMap(of) };
				return compare({ scenario: `${name}, ${service}`, figure, unit, ours, baseline });
			});
		const reported = measured.bare.every(({ resident }) => resident !== undefined);
		return [
			...compareWith('time', 'ms', ({ milliseconds }) => [milliseconds]),
			...(reported ? compareWith('memory at rest', 'MiB', ({ resident }) => [resident ?? Number.NaN]) : []),
		];
	},
};
