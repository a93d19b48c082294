import { setTimeout as delay } from 'node:timers/promises';
import { startPgBouncer } from '@contacts/testing/pgbouncer.js';
import type { RunningService } from '@contacts/testing/services.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { createUpsertClient, type ResponseStatus, type UpsertClient } from '@contacts/testing/upsert-client.js';
import { afterAll, expect, onTestFinished } from 'vitest';
import { urlFor } from '../services.js';
import { databaseIsQuiet, endSessions, executed, prepare, start } from './late-statements.js';

/** Ten rounds of 200 chats each. Five rounds run at once in one stall. */
const [stalls, chatsEach] = [2, 1000];
/** Load shedding always admits fifty requests. A starved service refuses the others. */
const leastFailed = stalls * 50;
/** Milliseconds within which a request gets a response. */
const deadline = 4000;
let nextChat = 1;

test.beforeAll(() => prepare('personal_contacts'));
afterAll(endSessions);

const save = ({ url }: RunningService, chat_id: number, name: string, client: UpsertClient) =>
	client.upsert(`${url}/api/personal_contacts?project=bot&api_key=bot-key`, { chat_id, name });

/** The outcomes of saving this name for each of these chats, with this concurrency. */
async function saveAll(
	service: RunningService,
	chats: number[],
	name: string,
	client: UpsertClient,
	atOnce = chats.length,
) {
	const outcomes: ResponseStatus[] = [];
	for (let from = 0; from < chats.length; from += atOnce) {
		const some = chats.slice(from, from + atOnce);
		// Refusals come at once. Those of one moment must not refuse all chats.
		if (outcomes.at(-1) === 503) await delay(500);
		outcomes.push(...(await Promise.all(some.map((chat) => save(service, chat, name, client)))));
	}
	return outcomes;
}

interface Scenario {
	/** Milliseconds by which the stall is longer than A's callers wait; undefined: it ends as soon as B has responded. */
	longer: number | undefined;
	/** When A is killed, in milliseconds after the requests were sent. */
	killedAfter?: number;
	/** Milliseconds that A's network takes in each direction before the stall. */
	latency?: number;
}

const scenarios: Scenario[] = [
	...[0, 3000, 8000].flatMap((longer) => [{ longer }, { longer, killedAfter: deadline / 2 }]),
	// A's statements arrive before their deadline, so they may still write.
	{ longer: undefined, killedAfter: 100 },
	// B writes within the time that A's network takes, by which A's estimate of the database's clock may be wrong.
	{ longer: undefined, killedAfter: 50, latency: 150 },
];

let started: Promise<unknown> = Promise.resolve();
/** Starts one replica after the other: all at once would take the processor from each other for too long. */
function startReplica(url: string): Promise<RunningService> {
	const starting = started.then(() => start(url));
	started = starting;
	return starting;
}

/**
 * @returns the upserts that B acknowledged and that are not stored; the chats that only A was asked to save, and that were stored
 *   after its callers had an error; and how many of A's upserts failed
 */
async function play({ longer, killedAfter, latency = 0 }: Scenario, urlOfA: string, b: RunningService) {
	const network = await startTcpProxy(urlOfA);
	onTestFinished(() => network.close());
	const client = createUpsertClient();
	onTestFinished(() => client.close());
	const lost: { chat: number; name: string }[] = [];
	const late: { chat: number }[] = [];
	const startA = () => {
		network.slow(latency);
		return startReplica(network.through(urlOfA));
	};
	let a = await startA();
	let failed = 0;
	for (let stall = 0; stall < stalls; stall++) {
		const chats = Array.from({ length: longer === undefined ? chatsEach / 5 : chatsEach }, () => nextChat++);
		// Opens all connections and prepares the statement on each, with a batch of many contacts.
		await saveAll(a, chats, 'first', client, 200);
		// The fifty requests that are always admitted are counted over this time.
		await delay(500);

		const onlyOlder = Array.from({ length: chats.length / 5 }, () => nextChat++);

		network.stall();
		const begun = performance.now();
		const older = saveAll(a, [...onlyOlder, ...chats], 'older', client);
		if (killedAfter !== undefined) {
			await delay(begun + killedAfter - performance.now());
			await a.stop('SIGKILL');
		}
		const outcomes = await older;
		expect(outcomes).not.toContain(200);
		// A request that was refused at once sent no statement.
		failed += outcomes.filter((outcome) => outcome !== 503).length;
		const over = killedAfter !== undefined ? begun + deadline : performance.now();
		const newer = await saveAll(b, chats, 'newer', client, 25);
		const acknowledged = chats.filter((_, index) => newer[index] === 200);
		expect(acknowledged.length).toBeGreaterThan(chats.length / 2);
		if (longer !== undefined) await delay(Math.max(0, over + longer - performance.now()));
		await network.restore();
		await databaseIsQuiet();
		lost.push(
			...(await database.sql<{ chat: number; name: string }[]>`
				select chat_id::float8 as chat, name from personal_contacts
				where chat_id = any(${`{${acknowledged.join()}}`}::text::bigint[]) and name <> 'newer'`),
		);
		if (longer !== undefined) {
			late.push(
				...(await database.sql<{ chat: number }[]>`
					select chat_id::float8 as chat from personal_contacts
					where chat_id = any(${`{${onlyOlder.join()}}`}::text::bigint[])`),
			);
		}
		if (killedAfter !== undefined && stall + 1 < stalls) a = await startA();
	}
	return { lost, late, failed };
}

test('upserts that one replica acknowledged are kept when older ones of another replica arrive late, directly and through PgBouncer in transaction mode', async () => {
	const direct = urlFor('personal-contacts');
	const pgbouncer = await startPgBouncer(direct);
	onTestFinished(() => pgbouncer.stop());
	const before = await executed();
	const ways = [
		{ way: 'directly', url: direct, b: await start(direct) },
		{ way: 'through PgBouncer', url: pgbouncer.through(direct), b: await start(pgbouncer.through(direct)) },
	];
	const results = await Promise.all(
		ways.flatMap(({ way, url, b }) =>
			scenarios.map(async (scenario) => ({ way, scenario, ...(await play(scenario, url, b)) })),
		),
	);
	console.info(
		results
			.map(({ way, scenario, failed, lost }) => {
				return `${way}, ${JSON.stringify(scenario)}: ${failed} failed, ${lost.length} overwritten`;
			})
			.concat(`${(await executed()) - before} statements executed`)
			.join('\n'),
	);
	expect(results.flatMap(({ lost }) => lost).slice(0, 10)).toEqual([]);
	expect(results.flatMap(({ late }) => late).slice(0, 10)).toEqual([]);
	for (const { failed } of results) expect(failed).toBeGreaterThanOrEqual(leastFailed);
});
