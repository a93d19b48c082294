import type { RunningService } from '@contacts/testing/services.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, onTestFinished, vi } from 'vitest';
import { urlFor } from '../services.js';
import { databaseIsQuiet, endSessions, executed, prepare, start } from './late-statements.js';

test.beforeAll(() => prepare('direct_subscriptions'));
afterAll(endSessions);

/** The status of a report; 0: there was no response. */
async function report({ url }: RunningService, chatId: number, active: boolean): Promise<number> {
	const body = JSON.stringify({ chat_id: chatId, active });
	const headers = { 'content-type': 'application/json' };
	return fetch(`${url}/api/direct_subscriptions?project=bot&api_key=bot-key`, { method: 'POST', headers, body }).then(
		async (response) => {
			await response.text();
			return response.status;
		},
		() => 0,
	);
}

interface Scenario {
	/** A is killed when it has sent some statements. */
	isKilled?: boolean;
	/** Milliseconds that A's network takes in each direction before the stall. */
	latency?: number;
}

test.each<[string, number, Scenario]>([
	['when it got a 500', 1000, {}],
	['when it was killed, and the newer one came before the expiry', 2000, { isKilled: true }],
	['when it was killed, and its network is slow', 3000, { isKilled: true, latency: 150 }],
])('the newest report is kept when an older one of another replica arrives late: %s', async (_, first, scenario) => {
	const { isKilled = false, latency = 0 } = scenario;
	const direct = urlFor('personal-contacts');
	const network = await startTcpProxy(direct);
	onTestFinished(() => network.close());
	network.slow(latency);
	const pool = { DATABASE_POOL_SIZE: '10' };
	const [a, b] = [await start(network.through(direct), pool), await start(direct, pool)];
	const chats = Array.from({ length: 40 }, (_value, index) => first + index);
	/** For half of the chats the older report says active, for the others inactive. The newer report says the opposite. */
	const older = (chat: number) => chat % 2 === 0;
	const all = (service: RunningService, state: (chat: number) => boolean) =>
		Promise.all(chats.map((chat) => report(service, chat, state(chat))));
	// Opens all connections and prepares the statement on each.
	for (const state of [older, (chat: number) => !older(chat)]) {
		expect(new Set(await all(a, state))).toEqual(new Set([200]));
	}

	network.stall();
	const responses = all(a, older);
	if (isKilled) {
		// One of them may be the poll's.
		await vi.waitUntil(() => network.held > 5, { timeout: 20_000, interval: 1 });
		await a.stop('SIGKILL');
	}
	expect(new Set(await responses)).toEqual(new Set([isKilled ? 0 : 500]));
	// These reports change nothing but still count: anything sent before them is older.
	expect(new Set(await all(b, (chat) => !older(chat)))).toEqual(new Set([200]));
	const before = await executed();
	await network.restore();
	await vi.waitUntil(async () => (await executed()) > before, { timeout: 20_000, interval: 20 });
	await databaseIsQuiet();
	const rows = await database.sql<{ chat: number }[]>`
		select chat_id::float8 as chat from direct_subscriptions
		where ended_at is null and chat_id between ${first} and ${first + chats.length - 1} order by chat_id`;
	expect(rows.map(({ chat }) => chat)).toEqual(chats.filter((chat) => !older(chat)));
});
