import { setTimeout as delay } from 'node:timers/promises';
import { addProject } from '@contacts/testing/app.js';
import { startCrashablePostgres } from '@contacts/testing/crashable-postgres.js';
import { type Time, watchDelays } from '@contacts/testing/machine-delays.js';
import { seededRandom } from '@contacts/testing/random.js';
import { startService } from '@contacts/testing/services.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { createUpsertClient } from '@contacts/testing/upsert-client.js';
import { columnsOf, startClients } from '@contacts/testing/upserting-clients.js';
import { expect, type TestContext } from 'vitest';

/** Of both systems together. Each also goes through all faults once. */
const minWrites = 40_000;
/** Milliseconds within which the service must recover by itself once the database is back: the longest time of a request. */
const recoveryLimit = 5000;
const user = 'personal-contacts';
const random = seededRandom();

/** A service with its own PostgreSQL and network, and what breaks them. */
async function startSystem(onTestFinished: TestContext['onTestFinished']) {
	const server = await startCrashablePostgres();
	onTestFinished(() => server.remove());
	await server.asSuperuser((sql) => addProject(sql, 'bot', 'bot-key'));
	const network = await startTcpProxy(server.urlAs(user));
	onTestFinished(() => network.close());
	const start = (port: string) => startService(user, { DATABASE_URL: network.through(server.urlAs(user)), PORT: port });
	let service = await start('0');
	onTestFinished(() => service.stop('SIGKILL'));
	/** The output of every service process that was ended. */
	let written = '';

	/** Disturbs the network for so many milliseconds. */
	const forAWhile = (disturb: () => void, shortest: number, longest: number) => async () => {
		disturb();
		await delay(random.integer(shortest, longest));
		await network.restore();
	};
	/** Each breaks something and returns when the database is back and can be reached. */
	const faults: Record<string, () => Promise<void>> = {
		async 'backends terminated'() {
			for (let times = random.integer(1, 5); times > 0; times--) {
				await server.terminateBackends(user);
				await delay(random.integer(0, 100));
			}
		},
		async 'backend killed, all others reset'() {
			await server.crashBackend(user);
			await delay(20);
			await server.responds();
		},
		async 'PostgreSQL stopped immediately'() {
			network.refuse();
			await server.crash();
			await delay(random.integer(0, 1500));
			await server.restart();
			network.redirect(server.urlAs(user));
			await server.responds();
			await network.restore();
		},
		async 'service killed'() {
			const { port } = new URL(service.url);
			await service.stop('SIGKILL');
			written += service.output();
			service = await start(port);
		},
		'network cut': forAWhile(() => network.cut(), 0, 2000),
		'network black-holed': forAWhile(() => network.blackhole(), 200, 3000),
		'network stalled': forAWhile(() => network.stall(), 200, 3000),
		'network slowed': forAWhile(() => network.slow(random.integer(20, 150)), 1000, 2000),
		// In-flight statements still arrive, after newer ones on other connections.
		async 'slow network cut'() {
			network.slow(random.integer(200, 400));
			await delay(random.integer(200, 1500));
			network.cut();
			await network.restore();
		},
	};

	return {
		server,
		faults,
		url: `${service.url}/api/personal_contacts?project=bot&api_key=bot-key`,
		hasExited: () => service.hasExited,
		/** @returns the exit code and the output of all processes */
		async stop() {
			await service.stop();
			return { code: await service.exit, written: written + service.output() };
		},
	};
}

test.concurrent.for(['first', 'second'])(
	`none of ${minWrites / 2} acknowledged upserts is lost, whatever fails beneath them: %s system`,
	async (_, { onTestFinished }) => {
		const { server, faults, url, hasExited, stop } = await startSystem(onTestFinished);
		const clients = startClients(url, 32, 100, random);
		// This server has no faults.
		const stopWatching = watchDelays(() => database.sql`select 1`);
		onTestFinished(async () => void (await stopWatching()));
		const timeline: { kind: string; begun: number; back: number; recovery: number }[] = [];
		const begun = performance.now();

		const kinds = Object.keys(faults);
		let deck: string[] = [];
		while (clients.acknowledged < minWrites / 2 || timeline.length < kinds.length) {
			await delay(random.integer(1000, 2000));
			expect(hasExited()).toBe(false);
			if (deck.length === 0) deck = random.shuffled(kinds);
			const fault = { kind: deck.pop() ?? '', begun: performance.now(), back: 0, recovery: 0 };
			await faults[fault.kind]?.();
			fault.back = performance.now();
			fault.recovery = await recovery(url);
			timeline.push(fault);
		}
		await clients.stop();
		const machine = await stopWatching();
		const slowest = machine.longest(clients.slow);
		const seconds = (performance.now() - begun) / 1000;
		const { code, written } = await stop();

		const rows = await server.asSuperuser(
			(sql) => sql<{ chat: number; username: string; name: string }[]>`
			select chat_id::float8 as chat, username, name from personal_contacts`,
		);
		const versions = new Map(rows.map((row) => [row.chat, Number(row.name.slice(1))]));
		const lost = [...clients.stored]
			.filter(([chat, version]) => (versions.get(chat) ?? 0) < version)
			.map(([chat, version]) => ({
				chat,
				acknowledged: version,
				stored: versions.get(chat),
				sent: clients.sent.get(chat),
			}));
		// A service that gets no processor refuses requests too.
		const isStarved = ({ begun, ended }: Time) => machine.during(begun - recoveryLimit, ended) > 100;
		const unexplained = clients.failures.filter(
			(failure) =>
				!isStarved(failure) &&
				!timeline.some(({ kind, begun, back }) => {
					const over = kind === 'service killed' ? back : back + recoveryLimit;
					return failure.ended >= begun && failure.begun <= over;
				}),
		);

		const figures = kinds.map((kind) => {
			const times = timeline.filter((fault) => fault.kind === kind).map((fault) => Math.round(fault.recovery));
			return `  ${kind}: ${times.length} times, served again after ${times.join(', ')} ms`;
		});
		console.info(
			[
				`seed ${random.seed}: ${clients.acknowledged} acknowledged in ${seconds.toFixed(0)} s, ${rows.length} chats, ${lost.length} lost or older`,
				`  outcomes: ${[...clients.outcomes].map(([outcome, count]) => `${outcome}: ${count}`).join(', ')}`,
				`  slowest request: ${slowest.toFixed(0)} ms without delays of the machine`,
				...figures,
			].join('\n'),
		);
		expect(lost.slice(0, 10)).toEqual([]);
		const ownChats = rows.filter(({ chat }) => clients.sent.has(chat));
		expect(ownChats.filter(({ username, name }) => columnsOf(Number(name.slice(1))).username !== username)).toEqual([]);
		expect(ownChats.filter(({ chat }) => (versions.get(chat) ?? 0) > (clients.sent.get(chat) ?? 0))).toEqual([]);
		expect(slowest).toBeLessThan(5000 * machine.slowdown);
		const recoveries = timeline.map(({ back, recovery }) => ({ begun: back, ended: back + recovery }));
		expect(machine.longest(recoveries)).toBeLessThan(recoveryLimit * machine.slowdown);
		expect(unexplained).toEqual([]);
		// `slowest` judges the time of a request that hung.
		const allowed = [200, 500, 503, 'ECONNREFUSED', 'ECONNRESET', 'HUNG'];
		expect([...clients.outcomes.keys()].filter((outcome) => !allowed.includes(outcome))).toEqual([]);
		// Each process ended only by a signal of this test, the last one gracefully. None logged an unexpected error.
		expect(code).toBe(0);
		expect(written).not.toMatch(/"level":"fatal"|unexpected error/);
	},
);

/** Milliseconds from now until a request is served. */
async function recovery(url: string): Promise<number> {
	const begun = performance.now();
	const client = createUpsertClient();
	let served: number | undefined;
	const probes: Promise<void>[] = [];
	while (served === undefined && performance.now() - begun < 15_000) {
		probes.push(
			client.upsert(url, { chat_id: 1_000_000, name: 'v0' }).then((outcome) => {
				if (outcome === 200) served ??= performance.now() - begun;
			}),
		);
		await delay(20);
	}
	await Promise.all(probes);
	client.close();
	return served ?? Number.POSITIVE_INFINITY;
}
