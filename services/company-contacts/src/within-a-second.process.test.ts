import { setTimeout as delay } from 'node:timers/promises';
import { revokeKey } from '@contacts/common/auth/projects.sql.js';
import { urlAs } from '@contacts/migrations/roles.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { type Time, watchStarvedTime } from '@contacts/testing/starved-time.js';
import { startTcpProxy, type TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';

/** Its poll, and nothing else, goes through the proxy. */
let app: TestApp;
let proxy: TcpProxy;
let rounds = 0;

const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };

test.beforeAll(async () => {
	await addProject(database.sql, 'reader', 'reader-key');
	await database.sql`insert into company_contacts (bitrix_id, company_ids) values (1, '{7}'), (2, '{8}')`;
	proxy = await startTcpProxy(database.url);
	app = await startTestApp(service, database.url, { environment, pollUrl: proxy.through(database.url) });
});
afterAll(async () => {
	await app?.close();
	proxy?.close();
});

/** Something that changes. `isOld` requests it, and returns whether it is still as before; undefined for an error. */
interface Subject {
	isOld(): Promise<boolean | undefined>;
	change(): Promise<unknown>;
}

const path = (name: string, rest: string) => `/api/company_contacts.${name}?${rest}`;
const reader = 'project=reader&api_key=reader-key';

async function keyToRevoke(): Promise<Subject> {
	const project = `revoked-${++rounds}`;
	await addProject(database.sql, project, `${project}-key`);
	const [key] = await database.sql<[{ id: number }]>`
		select k.id::int from api_keys k join projects p on p.id = k.project_id where p.code = ${project}`;
	const statusOf = async () =>
		(await app.fetch(path('list', `company_id=7&project=${project}&api_key=${project}-key`))).status;
	await expect.poll(statusOf).toBe(200);
	return {
		async isOld() {
			const status = await statusOf();
			return status === 200 || status === 401 ? status === 200 : undefined;
		},
		change: () => revokeKey(database.sql, key.id),
	};
}

/** A list, or the changes after it, that gets another name. */
function renamed(url: string, bitrixId: number): Subject {
	const name = `Name ${++rounds}`;
	return {
		async isOld() {
			const response = await app.fetch(url);
			const text = await response.text();
			return response.status === 200 ? !text.includes(name) : undefined;
		},
		change: () => database.sql`update company_contacts set name = ${name} where bitrix_id = ${bitrixId}`,
	};
}

async function subjects(): Promise<Record<'key' | 'list' | 'feed', Subject>> {
	const response = await app.fetch(path('changes', reader));
	const { cursor } = (await response.json()) as { cursor: string };
	return {
		key: await keyToRevoke(),
		list: renamed(path('list', `company_id=7&${reader}`), 1),
		feed: renamed(path('changes', `cursor=${cursor}&${reader}`), 2),
	};
}

/**
 * Requests without a pause until two responses have the change.
 *
 * @returns the last request whose response did not have it
 */
async function lastOld({ isOld }: Subject): Promise<Time> {
	let last = { begun: 0, ended: 0 };
	for (let changed = 0; changed < 2; ) {
		const begun = performance.now();
		const old = await isOld();
		if (old) last = { begun, ended: performance.now() };
		if (old === false) changed++;
		if (old === undefined) await delay(10);
	}
	return last;
}

/** Occupies all connections for requests. */
function holdPool(seconds: number): void {
	for (let n = 0; n < app.database.connections.limit; n++)
		app.database.query((sql) => sql`select pg_sleep(${seconds})`).catch(() => undefined);
}

/** Occupies the event loop for nine tenths of two seconds. */
function holdLoop(): void {
	const until = performance.now() + 2000;
	const timer = setInterval(() => {
		const end = performance.now() + 180;
		while (performance.now() < end);
		if (end > until) clearInterval(timer);
	}, 200);
}

describe('a revoked key, a changed list and a change in the feed are seen within a second', () => {
	test.each<[string, () => unknown]>([
		['while all is well', () => undefined],
		['with the connection of the poll cut', () => proxy.cut()],
		['with the connection of the poll unresponsive for ever', () => proxy.blackhole()],
		['with the connection of the poll held back', () => proxy.holdBack()],
		['with every response to the poll late by half a second', () => proxy.slow(250)],
		['with every response to the poll late by two seconds', () => proxy.slow(1000)],
		['with every connection for requests occupied', () => holdPool(2)],
		['with a busy event loop', holdLoop],
	])('%s', async (when, disturb) => {
		const all = Object.entries(await subjects()) as ['key' | 'list' | 'feed', Subject][];
		for (const [, { isOld }] of all) expect(await isOld()).toBe(true);
		const machine = watchStarvedTime(() => []);
		const requesting = Promise.all(all.map(([, subject]) => lastOld(subject)));
		disturb();
		await Promise.all(all.map(([, { change }]) => change()));
		const changed = performance.now();
		// Without its network nothing would ever be served again.
		const isSlow = when.includes('late by');
		const restored = isSlow ? undefined : delay(1500).then(() => proxy.restore());
		const last = await requesting;
		await restored;
		machine.stop();
		await proxy.restore();
		const times = last.map(
			({ begun, ended }, n) => `${all[n]?.[0]} ${(begun - changed).toFixed(0)} + ${(ended - begun).toFixed(0)}`,
		);
		console.log(`${when}: the last request and response without the change came after ${times.join(', ')} ms`);
		for (const [n, { begun, ended }] of last.entries()) {
			// However busy the machine is: the service goes by the clock.
			expect(begun - changed, all[n]?.[0]).toBeLessThan(1000);
			expect(machine.own({ begun, ended }), all[n]?.[0]).toBeLessThan(1000);
		}
		await expect.poll(async () => (await app.fetch('/health/ready')).status).toBe(200);
	});
});

test('a database that responds after two seconds is asked for no list again that has not changed', async () => {
	const slow = await startTcpProxy(database.url);
	onTestFinished(() => slow.close());
	const roleUrl = slow.through(urlAs(database.url, 'company-contacts', rolePassword));
	const behind = await startTestApp(service, database.url, {
		environment,
		pollUrl: roleUrl,
		database: { url: roleUrl },
	});
	onTestFinished(() => behind.close());
	const lists = Array.from({ length: 50 }, (_, n) => path('list', `company_id=${n + 1}&${reader}`));
	const statusOf = async (url: string) => (await behind.fetch(url)).status;
	for (const url of lists) expect(await statusOf(url)).toBe(200);
	const fromDatabase = async () => {
		const { values } = (await behind.registry.getSingleMetric('list_responses_total')?.get()) ?? { values: [] };
		return values.find(({ labels }) => labels.source === 'database')?.value;
	};
	const before = await fromDatabase();
	slow.slow(1000);
	const statuses = new Map<number, number>();
	const until = performance.now() + 6000;
	await Promise.all(
		lists.map(async (url) => {
			while (performance.now() < until) {
				const status = await statusOf(url);
				statuses.set(status, (statuses.get(status) ?? 0) + 1);
				await delay(20);
			}
		}),
	);
	console.log(`50 clients for 6 seconds, a response after 2 seconds: ${JSON.stringify([...statuses])}`);
	expect(statuses.get(200)).toBeGreaterThan(50);
	expect([before, await fromDatabase()]).toEqual([50, 50]);
});
