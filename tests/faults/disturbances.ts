import { setTimeout as delay } from 'node:timers/promises';
import type { ForeignResponse } from '@contacts/testing/http-proxy.js';
import type { Random } from '@contacts/testing/random.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import type { Outcome } from './judges/judge.js';
import type { Replica, System } from './system.js';

/** Something that fails, and what clients may be told because of it. */
export interface Disturbance {
	name: string;
	/** @returns what shows that it was felt, such as requests that waited, or responses that were made up; 0: it was not */
	run(system: System, random: Random): Promise<number>;
	/** What clients may be told from its begin until so many milliseconds after its end, besides what they may always be told. */
	allows: { outcomes: readonly Outcome[]; forMs: number };
}

/** Longer than a caller waits before it sends newer values elsewhere. */
const standstillMs = 8000;

const both = ({ replicas }: System) => [replicas.personal[0], replicas.company[0]];

/** Stops a process for so many milliseconds. @returns how many requests waited for it in the end */
async function freeze({ process: service, toClients }: Replica, milliseconds: number): Promise<number> {
	process.kill(service.pid, 'SIGSTOP');
	await delay(milliseconds);
	const { waiting } = toClients;
	process.kill(service.pid, 'SIGCONT');
	return waiting;
}

const page = (status: number, headers: Record<string, string> = {}): ForeignResponse => ({
	status,
	headers: { 'content-type': 'text/html', ...headers },
	...(status === 204 ? {} : { body: '<h1>Something in between</h1>' }),
});

/** What an intermediary may send in place of the service's response. */
const foreignResponses: readonly ForeignResponse[] = [
	page(200),
	page(204),
	page(500),
	page(502),
	page(503, { 'retry-after': 'Thu, 26 Nov 2026 16:13:32 GMT' }),
	page(504),
	page(522),
	{ ...page(200, { 'content-type': 'application/json' }), body: '{"ok":"saved","count":0}', isHalf: true },
];

/** Lets an intermediary respond in place of the service, in each of these ways for a while. */
async function respondFor(system: System, delayMs: number | undefined): Promise<number> {
	const proxies = both(system).map(({ toClients }) => toClients);
	let count = 0;
	for (const response of foreignResponses) {
		const before = proxies.map(({ foreign }) => foreign);
		for (const proxy of proxies) proxy.answer(response, delayMs);
		await waitUntil(() => proxies.every(({ foreign }, index) => foreign >= Number(before[index]) + 5), {
			timeoutMs: 20_000,
		});
		for (const proxy of proxies) proxy.pass();
		count++;
	}
	return count;
}

export const disturbances: readonly Disturbance[] = [
	{
		name: 'a replica of each service stands still for longer than callers wait',
		run: async (system) =>
			Math.min(...(await Promise.all(both(system).map((replica) => freeze(replica, standstillMs))))),
		allows: { outcomes: ['timeout', 'broken', 500], forMs: 2000 },
	},
	{
		name: 'a replica of each service stands still three times, with little time in between',
		run: async (system) => {
			const waiting = both(system).map(async (replica) => {
				let least = Number.POSITIVE_INFINITY;
				for (let times = 0; times < 3; times++) {
					least = Math.min(least, await freeze(replica, 2500));
					await delay(20);
				}
				return least;
			});
			return Math.min(...(await Promise.all(waiting)));
		},
		allows: { outcomes: ['timeout', 'broken', 500], forMs: 2000 },
	},
	{
		name: 'an intermediary responds for the service, and passes the request on later',
		run: (system) => respondFor(system, 1500),
		allows: { outcomes: ['foreign', 'broken'], forMs: 2000 },
	},
	{
		name: 'an intermediary replaces the response of the service',
		run: (system) => respondFor(system, undefined),
		allows: { outcomes: ['foreign', 'broken'], forMs: 2000 },
	},
];
