import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { roles } from '@contacts/migrations/roles.js';
import type { ForeignResponse } from '@contacts/testing/http-proxy.js';
import { childrenOf, cpuSecondsOf, isStopped } from '@contacts/testing/proc.js';
import type { Random } from '@contacts/testing/random.js';
import type { TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import type { Kind } from './database.js';
import { giveUpMs, type Outcome } from './judges/judge.js';
import type { Replica, System } from './system.js';

/** What clients may always be told: a success, that the limit is exceeded, that a key is unknown, and that the service has no time. */
export const always: readonly Outcome[] = [200, 401, 429, 503];

/** A row that was not felt is run again for so many milliseconds. */
export const repeatedMs = 60_000;

/** Something that fails, and what clients may be told because of it. */
export interface Disturbance {
	name: string;
	/** In which it is possible. A complete run deals it in the first of them, a night in all. */
	kinds: readonly Kind[];
	/**
	 * @returns what shows that it was felt, such as requests that waited, or responses that were made up; 0: it was not, and runs
	 *   again for a while, because on a slow machine nothing may have been under way
	 */
	run(system: System, random: Random): Promise<number>;
	/** What clients may be told from its begin until so many milliseconds after its end, besides what they may always be told. */
	allows: { outcomes: readonly Outcome[]; forMs: number };
}

/** Longer than a caller waits before it sends newer values elsewhere. */
const standstillMs = 8000;

const both = ({ replicas }: System) => [replicas.personal[0], replicas.company[0]];
const allOf = ({ replicas }: System) => [...replicas.personal, ...replicas.company];

/** Stops a process for so many milliseconds. @returns how many requests were seen to wait for it at a time */
async function freeze({ process: service, toClients }: Replica, milliseconds: number): Promise<number> {
	process.kill(service.pid, 'SIGSTOP');
	let waiting = 0;
	for (const until = performance.now() + milliseconds; performance.now() < until; await delay(100))
		// The gateway may have given up all of them in the end.
		if (isStopped(service.pid)) waiting = Math.max(waiting, toClients.waiting);
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

/**
 * Disturbs the network between a replica of each service, the synchroniser and the database for so many milliseconds.
 *
 * @returns what is counted at the end of that time
 */
async function disturbNetwork(
	{ replicas }: System,
	random: Random,
	disturb: (proxy: TcpProxy) => void,
	milliseconds: number,
	count: (proxy: TcpProxy) => number,
): Promise<number> {
	const index = random.integer(0, 1) as 0 | 1;
	const disturbed = [replicas.personal[index], replicas.company[index], replicas.sync];
	const proxies = disturbed.flatMap(({ toDatabase }) => toDatabase);
	// Each disturbance counts from zero what is held.
	const before = proxies.map((proxy) => (count === held ? 0 : count(proxy)));
	for (const proxy of proxies) disturb(proxy);
	await delay(milliseconds);
	const felt = proxies.reduce((sum, proxy, index) => sum + Math.max(0, count(proxy) - Number(before[index])), 0);
	await Promise.all(proxies.map((proxy) => proxy.restore()));
	return felt;
}

const held = ({ held }: TcpProxy) => held;
const late = ({ late }: TcpProxy) => late;

const disturbedRoles = (['personal-contacts', 'company-contacts', 'crm-sync'] as const).map((user) => roles[user]);

/** The server's processes of the services. */
const backends = (system: System) =>
	system.asOwner(async (sql) => {
		const rows = await sql<{ pid: number }[]>`select pid from pg_stat_activity where usename in ${sql(disturbedRoles)}`;
		return rows.map(({ pid }) => pid);
	});

/** @returns how many of the server's processes were replaced by this */
async function replaced(system: System, work: () => Promise<unknown>): Promise<number> {
	const before = await backends(system);
	await work();
	const now = await backends(system);
	return before.filter((pid) => !now.includes(pid)).length;
}

const terminateBackends = (system: System) =>
	system.asOwner(async (sql) => {
		await sql`select pg_terminate_backend(pid) from pg_stat_activity where usename in ${sql(disturbedRoles)}`;
	});

/** Changes something of the server for so many milliseconds, for connections that are opened meanwhile. @returns what is counted then */
async function withSettings(
	system: System,
	[begin, end]: readonly [string, string],
	milliseconds: number,
	count: () => Promise<number>,
): Promise<number> {
	const run = (statements: string) => system.asOwner((sql) => sql.unsafe(statements).simple());
	await run(begin);
	await terminateBackends(system);
	await delay(milliseconds);
	const felt = await count();
	await run(end);
	await terminateBackends(system);
	return felt;
}

/** For the services alone: the judges write too, and what these settings make of a statement is not for them to bear. */
const alterRoles = (action: string) => disturbedRoles.map((role) => `alter role ${role} ${action};`).join('');
const inDatabase = 'in database postgres';

const foreignSettings = {
	default_transaction_isolation: "'serializable'",
	datestyle: "'SQL, DMY'",
	timezone: "'Asia/Kolkata'",
	lock_timeout: "'10ms'",
	idle_session_timeout: "'300ms'",
};

/** How many batches of contacts the services had to split so far, such as those that met a locked row. */
async function splitBatches({ replicas }: System): Promise<number> {
	const counts = replicas.personal.map(async ({ toClients }) => {
		const metrics = await (await fetch(`${toClients.url}/metrics`)).text();
		return Number(/^upsert_batches_split_total (\d+)/m.exec(metrics)?.[1]);
	});
	return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

/** Keeps the latest rows locked for 3 seconds. @returns how many batches met one */
async function lockRows(system: System, count: number): Promise<number> {
	const before = await splitBatches(system);
	await system.asOwner((sql) =>
		sql.begin(async (transaction) => {
			await transaction`
				select from personal_contacts where name like 'v%' order by updated_at desc limit ${count}::int for update`;
			await delay(3000);
		}),
	);
	return (await splitBatches(system)) - before;
}

/** Lets Redis be away. @returns how often a service has said so */
async function withoutRedis(system: System, how: 'gone' | 'frozen' | 'full', milliseconds: number): Promise<number> {
	const before = system.ownLimits;
	await system.redis.away(how, milliseconds);
	return system.ownLimits - before;
}

const anyKind: readonly Kind[] = ['direct', 'standby', 'pgbouncer'];
const standbyFirst: readonly Kind[] = ['standby', 'direct', 'pgbouncer'];
const poolerFirst: readonly Kind[] = ['pgbouncer', 'direct', 'standby'];

/** A service that can't reach its database says 500; one that is not there breaks the connection, for which a gateway says 502. */
const withoutDatabase = { outcomes: [500], forMs: 5000 } as const;
const withoutProcess = { outcomes: ['broken', 502, 504], forMs: 1000 } as const;

export const disturbances: readonly Disturbance[] = [
	{
		name: 'a replica of each service stands still for longer than callers wait',
		kinds: anyKind,
		run: async (system) =>
			Math.min(...(await Promise.all(both(system).map((replica) => freeze(replica, standstillMs))))),
		allows: { outcomes: ['timeout', 'broken', 500], forMs: 2000 },
	},
	{
		name: 'a replica of each service stands still three times, with little time in between',
		kinds: anyKind,
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
		kinds: anyKind,
		run: (system) => respondFor(system, 1500),
		allows: { outcomes: ['foreign', 'broken'], forMs: 2000 },
	},
	{
		name: 'an intermediary replaces the response of the service',
		kinds: anyKind,
		run: (system) => respondFor(system, undefined),
		allows: { outcomes: ['foreign', 'broken'], forMs: 2000 },
	},
	{
		name: 'the network of a replica returns just before callers give up, and that to the database later',
		kinds: anyKind,
		run: async ({ replicas }, random) => {
			const { toClients, toDatabase } = replicas.personal[0];
			toClients.hold();
			await delay(giveUpMs - random.integer(400, 600));
			for (const proxy of toDatabase) proxy.stall();
			await delay(200);
			const requests = toClients.pass();
			await delay(random.integer(500, 1000));
			const connections = toDatabase.reduce((sum, proxy) => sum + proxy.held, 0);
			await Promise.all(toDatabase.map((proxy) => proxy.restore()));
			return Math.min(requests, connections);
		},
		allows: { outcomes: ['timeout', 'broken', 500], forMs: 2000 },
	},
	{
		name: 'a replica of each service and the synchroniser are killed',
		kinds: anyKind,
		run: async (system) => {
			const killed = [...both(system), system.replicas.sync];
			const pids = killed.map((replica) => replica.process.pid);
			await Promise.all(killed.map((replica) => replica.restart('SIGKILL')));
			return killed.filter((replica, index) => replica.process.pid !== pids[index]).length;
		},
		allows: withoutProcess,
	},
	{
		name: 'the synchroniser is killed again and again in the middle of full runs',
		kinds: standbyFirst,
		run: async ({ replicas: { sync }, asOwner, crm }, random) => {
			let killed = 0;
			for (let times = 0; times < 6; times++) {
				await asOwner((sql) => sql`update crm_sync_state set last_full_at = null`);
				const requests = crm.requests.length + random.integer(1, 8);
				// The server may first have to end a session that has vanished, which takes half a minute.
				await waitUntil(() => crm.requests.length >= requests, { timeoutMs: 60_000 });
				const { pid } = sync.process;
				await sync.restart('SIGKILL');
				if (sync.process.pid !== pid) killed++;
			}
			return killed;
		},
		allows: { outcomes: [], forMs: 1000 },
	},
	{
		name: 'the replicas of the services are restarted one after the other',
		kinds: poolerFirst,
		run: async (system) => {
			const pids = allOf(system).map((replica) => replica.process.pid);
			for (const replica of allOf(system)) await replica.restart('SIGTERM');
			return allOf(system).filter((replica, index) => replica.process.pid !== pids[index]).length;
		},
		allows: withoutProcess,
	},
	{
		name: 'the network to the database is cut',
		kinds: standbyFirst,
		run: (system, random) =>
			disturbNetwork(
				system,
				random,
				(proxy) => proxy.cut(),
				random.integer(300, 2000),
				({ reset }) => reset,
			),
		allows: withoutDatabase,
	},
	{
		name: 'the network to the database delivers nothing any more, and new connections work after a while',
		kinds: standbyFirst,
		run: (system, random) =>
			disturbNetwork(system, random, (proxy) => proxy.blackhole(), random.integer(500, 3000), held),
		allows: withoutDatabase,
	},
	{
		name: 'the network to the database stalls, and delivers everything later',
		kinds: standbyFirst,
		run: (system, random) => disturbNetwork(system, random, (proxy) => proxy.stall(), random.integer(500, 3000), held),
		allows: withoutDatabase,
	},
	{
		name: 'what was sent to the database is delivered late, and new connections work at once',
		kinds: standbyFirst,
		run: (system, random) => disturbNetwork(system, random, (proxy) => proxy.holdBack(), standstillMs, held),
		allows: withoutDatabase,
	},
	{
		name: 'the network to the database is slow',
		kinds: standbyFirst,
		run: (system, random) =>
			disturbNetwork(system, random, (proxy) => proxy.slow(random.integer(20, 150)), random.integer(1000, 2000), late),
		allows: withoutDatabase,
	},
	{
		name: 'the network to the database is slow, and then cut: what is on the way arrives',
		kinds: standbyFirst,
		run: async (system, random) => {
			const slow = (proxy: TcpProxy) => {
				proxy.slow(random.integer(200, 400));
				setTimeout(() => proxy.cut(), milliseconds);
			};
			const milliseconds = random.integer(200, 1500);
			return disturbNetwork(system, random, slow, milliseconds + 20, late);
		},
		allows: withoutDatabase,
	},
	{
		name: 'an administrator ends the connections to the database',
		kinds: poolerFirst,
		run: async (system, random) => {
			let felt = 0;
			for (let times = random.integer(1, 5); times > 0; times--) {
				felt += await replaced(system, () => terminateBackends(system));
				await delay(random.integer(0, 100));
			}
			return felt;
		},
		allows: withoutDatabase,
	},
	{
		name: 'a process of the database is killed, which resets all others',
		kinds: poolerFirst,
		run: (system) =>
			replaced(system, async () => {
				const [first] = await backends(system);
				process.kill(Number(first), 'SIGKILL');
				await delay(20);
			}),
		allows: withoutDatabase,
	},
	{
		name: 'the database crashes, and starts again',
		kinds: ['pgbouncer', 'direct'],
		run: (system, random) => replaced(system, () => system.database.crash(random.integer(0, 1500))),
		allows: withoutDatabase,
	},
	{
		name: 'the database has no connections left',
		kinds: poolerFirst,
		run: async (system) => {
			const before = await backends(system);
			const missing = async () => before.length - (await backends(system)).length;
			return withSettings(system, [alterRoles('connection limit 0'), alterRoles('connection limit -1')], 2000, missing);
		},
		allows: withoutDatabase,
	},
	{
		name: 'somebody changes settings of the database',
		kinds: poolerFirst,
		run: (system) => {
			const affected = () =>
				system.asOwner(async (sql) => {
					const settings = await sql`select unnest(setconfig) from pg_db_role_setting where setdatabase <> 0`;
					return settings.length * (await backends(system)).length;
				});
			const set = Object.entries(foreignSettings).map(([name, value]) =>
				alterRoles(`${inDatabase} set ${name} = ${value}`),
			);
			return withSettings(system, [set.join(''), alterRoles(`${inDatabase} reset all`)], 4000, affected);
		},
		allows: withoutDatabase,
	},
	{
		name: 'the primary is silent, its standby is promoted, and the address leads to the former primary for a moment',
		kinds: ['standby'],
		run: async (system) => {
			await system.database.failOver();
			await delay(5000);
			let refused = 0;
			await system.database.leadToFormerPrimary(async () => {
				const until = performance.now() + 3000;
				// A second after it was led there, nothing is ready; on a busy machine later. There is no second promotion.
				for (; performance.now() < until + (refused === 0 ? repeatedMs : 0); await delay(100))
					for (const { toClients } of both(system)) {
						const { status } = await fetch(`${toClients.url}/health/ready`);
						if (status === 503) refused++;
					}
			});
			return refused;
		},
		// A copy begins again: the new primary can't know which versions the old one gave out.
		allows: { outcomes: [500, 410], forMs: 5000 },
	},
	{
		name: 'a row is locked',
		kinds: anyKind,
		run: (system) => lockRows(system, 1),
		allows: { outcomes: [500], forMs: 1000 },
	},
	{
		name: 'three hundred rows are locked',
		kinds: anyKind,
		run: (system) => lockRows(system, 300),
		allows: { outcomes: [500], forMs: 1000 },
	},
	...(['gone', 'frozen', 'full'] as const).map(
		(how): Disturbance => ({
			name: { gone: 'Redis is gone', frozen: 'Redis does not respond', full: 'Redis has no memory left' }[how],
			kinds: anyKind,
			run: (system) => withoutRedis(system, how, 2000),
			allows: { outcomes: [], forMs: 1000 },
		}),
	),
	{
		name: 'the gateway stands still',
		kinds: anyKind,
		run: async ({ nginx }) => {
			const pids = [nginx.pid, ...childrenOf(nginx.pid)];
			for (const pid of pids) process.kill(pid, 'SIGSTOP');
			await delay(3000);
			const stopped = pids.filter(isStopped);
			for (const pid of pids) process.kill(pid, 'SIGCONT');
			return stopped.length;
		},
		allows: { outcomes: [504], forMs: 1000 },
	},
	{
		name: 'every core has other work',
		kinds: anyKind,
		run: async () => {
			const loops = Array.from({ length: availableParallelism() }, () =>
				spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
			);
			await delay(3000);
			const seconds = loops.reduce((sum, { pid }) => sum + cpuSecondsOf(Number(pid)), 0);
			await Promise.all(loops.map((loop) => loop.kill('SIGKILL') && once(loop, 'exit')));
			// A process that does nothing uses some milliseconds.
			return Math.floor(10 * seconds);
		},
		allows: { outcomes: [], forMs: 1000 },
	},
];
