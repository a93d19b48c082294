import { setTimeout as delay } from 'node:timers/promises';
import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, onTestFinished, vi } from 'vitest';

// Two replicas. A's connections to the database stall, so its statements arrive late. B's are not affected.

const user = 'personal-contacts';

test.beforeAll(async () => {
	await addProject(database.sql, 'bot', 'bot-key');
	// Counts every executed statement, even one that writes nothing.
	await database.sql.unsafe(`
		create sequence executed;
		create function note_execution() returns trigger language plpgsql security definer as
			$$ begin perform nextval('public.executed'); return null; end $$;
		create trigger note_execution before insert on direct_subscription_reports
			for each statement execute function note_execution()`);
});
afterAll(async () => {
	// The server may not have noticed yet that the replicas were killed.
	await database.sql`
		select pg_terminate_backend(pid) from pg_stat_activity where application_name = ${user} and datname = current_database()`;
});

async function start(url: string): Promise<RunningService> {
	const service = await startService(user, { DATABASE_URL: url, DATABASE_POOL_SIZE: '10' });
	onTestFinished(() => service.stop('SIGKILL'));
	return service;
}

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

const executed = async () =>
	(await database.sql<{ count: number }[]>`select last_value::int as count from executed`)[0]?.count ?? 0;

/** Waits until the services have had no in-flight statement for a moment. */
async function databaseIsQuiet(): Promise<void> {
	let quiet = 0;
	await vi.waitUntil(
		async () => {
			const active = await database.sql`
				select from pg_stat_activity where application_name = ${user} and state = 'active' and datname = current_database()`;
			quiet = active.length === 0 ? quiet + 1 : 0;
			return quiet === 10;
		},
		{ timeout: 20_000, interval: 50 },
	);
}

test.each([
	['when it was answered with 500', 1000, false],
	['when it was killed, and the newer one came before the expiry', 2000, true],
])('the newest report is kept when an older one of another replica arrives late: %s', async (_, first, killed) => {
	const direct = urlAs(database.url, user, rolePassword);
	const network = await startTcpProxy(direct);
	onTestFinished(() => network.close());
	const [a, b] = [await start(network.through(direct)), await start(direct)];
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
	if (killed) {
		// Some statements have been sent by then.
		await delay(300);
		await a.stop('SIGKILL');
	}
	expect(new Set(await responses)).toEqual(new Set([killed ? 0 : 500]));
	// These reports change nothing but still count: anything sent before them is older.
	expect(new Set(await all(b, (chat) => !older(chat)))).toEqual(new Set([200]));
	const before = await executed();
	await network.restore();
	await vi.waitUntil(async () => (await executed()) > before, { timeout: 10_000, interval: 20 });
	await databaseIsQuiet();
	const rows = await database.sql<{ chat: number }[]>`
		select chat_id::float8 as chat from direct_subscriptions
		where ended_at is null and chat_id between ${first} and ${first + chats.length - 1} order by chat_id`;
	expect(rows.map(({ chat }) => chat)).toEqual(chats.filter((chat) => !older(chat)));
});
