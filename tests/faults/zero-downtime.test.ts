import { Agent, get as httpGet, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { freePort } from '@contacts/local-postgres/ports.js';
import { addProject } from '@contacts/testing/app.js';
import { botGatewayConfig, gatewayConfig, withoutRate } from '@contacts/testing/gateway.js';
import { type NameServer, startNameServer } from '@contacts/testing/name-server.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import { childrenOf } from '@contacts/testing/proc.js';
import { seededRandom } from '@contacts/testing/random.js';
import type { RunningService } from '@contacts/testing/services.js';
import { type StarvedTime, type Time, watchStarvedTime } from '@contacts/testing/starved-time.js';
import { database, test } from '@contacts/testing/test.js';
import { createUpsertClient, type ResponseStatus } from '@contacts/testing/upsert-client.js';
import { afterAll, expect } from 'vitest';
import { startService } from '../services.js';

// Two replicas on one port, each with its own address. The bot's gateway resolves one name, as with `--scale` in the compose file.
const addresses = ['127.0.0.1', '127.0.0.2'];
const contacts = 3000;
const restarts = 10;
let names: NameServer;
let gateway: RunningNginx;
let botGateway: RunningNginx;
const ports: Partial<Record<ServiceName, string>> = {};
const lists: RunningService[] = [];
const upserts: RunningService[] = [];

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', 'partner-key');
	await database.sql`
		insert into company_contacts (bitrix_id, company_ids, perplexity_reason)
		select n, array[n % 100 + 1], repeat('x', 100) from generate_series(1, ${contacts}::int) n`;
	for (const name of ['company-contacts', 'personal-contacts'] as const) ports[name] = String(await freePort());
	for (const address of addresses) {
		lists.push(await start('company-contacts', address));
		upserts.push(await start('personal-contacts', address));
	}
	names = await startNameServer(addresses);
	gateway = await startNginx(
		gatewayConfig(
			addresses.map((address) => `${address}:${ports['company-contacts']}`),
			withoutRate,
		),
	);
	const bot = `personal-contacts.test:${ports['personal-contacts']}`;
	botGateway = await startNginx(botGatewayConfig(bot, { resolver: names.address }));
});
afterAll(async () => {
	await Promise.all([gateway?.stop(), botGateway?.stop()]);
	names?.close();
	await Promise.all([...lists, ...upserts].map((replica) => replica.stop()));
});

const start = (name: ServiceName, address: string) =>
	startService(name, {
		TRUST_PROXY: 'loopback',
		HOST: address,
		PORT: String(ports[name]),
		RATE_LIMIT_PER_SECOND: '100000',
		RATE_LIMIT_BURST: '100000',
	});

/** Restarts each replica five times, one after the other, each once it has served this route. @returns the stops */
async function restartAll(name: ServiceName, replicas: RunningService[], route: string): Promise<Time[]> {
	const stops: Time[] = [];
	for (let restart = 0; restart < restarts; restart++) {
		await delay(400);
		const index = restart % addresses.length;
		const old = replicas[index] as RunningService;
		// However long a busy machine needs for the first request.
		await old.waitForLine(new RegExp(`"route":"${route}"`));
		const begun = performance.now();
		await old.stop('SIGTERM');
		stops.push({ begun, ended: performance.now() });
		expect(await old.exit).toBe(0);
		replicas[index] = await start(name, addresses[index] as string);
	}
	await delay(400);
	return stops;
}

/** What a busy machine takes from a gateway, its replicas, and this process. */
const watchMachine = ({ pid }: RunningNginx, replicas: readonly RunningService[]) =>
	watchStarvedTime(() => [...childrenOf(pid), ...replicas.map((replica) => replica.pid)]);

/**
 * Whether a busy machine explains this: a process that stands still for half a second sheds load, and one that waits for a
 * processor for a second may run out of time.
 */
const isStarved = (machine: StarvedTime, { outcome, begun, ended }: Time & { outcome: ResponseStatus }) =>
	(outcome === 503 && machine.during({ begun: begun - 1000, ended }) > 250) ||
	(outcome === 500 && machine.during({ begun, ended }) > 1000);

interface Answer {
	outcome: ResponseStatus;
	etag?: string | undefined;
	/** The end of a complete list. */
	count?: number;
}

function ask(query: string, agent: Agent, headers: Record<string, string>): Promise<Answer> {
	return new Promise((resolve) => {
		const failed = (error: NodeJS.ErrnoException) => resolve({ outcome: error.code ?? error.message });
		const url = `${gateway.url}/api/company_contacts.list?project=partner&api_key=partner-key${query}`;
		httpGet(url, { agent, headers }, (response: IncomingMessage) => {
			buffer(response).then((body) => {
				const outcome = response.statusCode ?? 0;
				if (outcome !== 200) return resolve({ outcome });
				resolve({ outcome, etag: response.headers.etag, count: JSON.parse(body.toString()).data.length });
			}, failed);
		}).on('error', failed);
	});
}

test.concurrent('no request fails while two replicas restart one after the other under load', async () => {
	const outcomes = new Map<ResponseStatus, number>();
	const wrong: (Answer & Time)[] = [];
	let running = true;
	const agent = new Agent({ keepAlive: true });

	const client = async (query: string, count: number) => {
		let etag: string | undefined;
		while (running) {
			const begun = performance.now();
			// Every other request for a short list is conditional.
			const conditional = etag !== undefined && count < contacts;
			const response = await ask(query, agent, conditional ? { 'if-none-match': etag ?? '' } : {});
			const time = { begun, ended: performance.now() };
			outcomes.set(response.outcome, (outcomes.get(response.outcome) ?? 0) + 1);
			if (response.outcome !== 304 && (response.outcome !== 200 || response.count !== count))
				wrong.push({ ...response, ...time });
			etag = conditional ? undefined : response.etag;
		}
	};
	const machine = watchMachine(gateway, lists);
	const load = [
		...Array.from({ length: 12 }, (_, index) => client(`&company_id=${index + 1}`, contacts / 100)),
		...Array.from({ length: 4 }, () => client('', contacts)),
	];

	await restartAll('company-contacts', lists, '/api/company_contacts.list');
	running = false;
	await Promise.all(load);
	agent.destroy();
	machine.stop();

	const total = [...outcomes.values()].reduce((sum, count) => sum + count, 0);
	console.info(
		`${total} requests over ${restarts} restarts: ${[...outcomes].map(([outcome, count]) => `${outcome}: ${count}`).join(', ')}`,
	);
	expect(wrong.filter((each) => !isStarved(machine, each)).slice(0, 5)).toEqual([]);
	expect(outcomes.get(304)).toBeGreaterThan(0);
	expect(total).toBeGreaterThan(restarts * load.length);
	// None waited for a replica that was down: after a second without a connection the gateway notes a 504, and asks the other one.
	const tries = gateway.accessLog().match(/(?<="upstream_status":")[^"]+/g) ?? [];
	expect(tries.length).toBeGreaterThanOrEqual(total);
	expect(tries.filter((statuses) => statuses.includes('504'))).toEqual([]);
});

test.concurrent('upserts do not fail while two replicas restart one after the other, but for those of one moment in which a replica stops to listen', async () => {
	const url = `${botGateway.url}/api/personal_contacts?project=partner&api_key=partner-key`;
	const machine = watchMachine(botGateway, upserts);
	const upsertClient = createUpsertClient();
	const random = seededRandom();
	const outcomes = new Map<ResponseStatus, number>();
	const failures: (Time & { outcome: ResponseStatus })[] = [];
	/** By chat: the last version that was acknowledged. */
	const acknowledged = new Map<number, string>();
	let running = true;

	/** Saves ten chats. The next version is sent only after the previous request has succeeded or failed. */
	const client = async (first: number) => {
		let chat = first;
		for (let version = 1; running; version++) {
			// Often saves the same chat again at once, which detects a late older version soonest.
			if (random.integer(1, 4) === 1) chat = first + random.integer(0, 9);
			const begun = performance.now();
			const outcome = await upsertClient.upsert(url, { chat_id: chat, username: `u${version}` });
			outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
			if (outcome === 200) acknowledged.set(chat, `u${version}`);
			else {
				failures.push({ outcome, begun, ended: performance.now() });
				await delay(20);
			}
		}
	};
	const load = Array.from({ length: 16 }, (_, index) => client(1 + 10 * index));
	const stops = await restartAll('personal-contacts', upserts, '/api/personal_contacts');
	running = false;
	await Promise.all(load);
	upsertClient.close();
	machine.stop();
	console.info(`upserts over ${restarts} restarts: ${JSON.stringify([...outcomes])}`);

	const during = (one: Time, other: Time) => one.begun < other.ended && other.begun < one.ended;
	const failed = failures.filter(({ outcome }) => outcome === 502);
	// The name server is in this process, and nginx waits for it for two seconds.
	const unresolved = failed.filter((each) => machine.during(each) > 1500);
	const lost = failed.filter((failure) => !unresolved.includes(failure));
	// nginx does not send an upsert again that it has sent. A request meets the 30 microseconds between the last look for
	// connections and the end of listening in less than one stop of a hundred, without that look in most stops.
	expect(stops.filter((stop) => lost.some((failure) => during(failure, stop))).length).toBeLessThanOrEqual(1);
	const explained = new Set([
		...failures.filter((failure) => isStarved(machine, failure)),
		...unresolved,
		...lost.filter((failure) => stops.some((stop) => during(failure, stop))),
	]);
	expect(failures.filter((failure) => !explained.has(failure))).toEqual([]);
	expect(outcomes.get(200)).toBeGreaterThan(500);
	const stored = await database.sql<{ chat: number; username: string }[]>`
		select chat_id::int as chat, username from personal_contacts`;
	expect(new Map(stored.map(({ chat, username }) => [chat, username]))).toEqual(acknowledged);
});
