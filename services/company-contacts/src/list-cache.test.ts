import type { Database } from '@contacts/common/database/database.js';
import { openDatabase } from '@contacts/common/database/database.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { timeUntil, watchDelays } from '@contacts/testing/machine-delays.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { test, database as test_ } from '@contacts/testing/test.js';
import { Registry } from 'prom-client';
import { afterAll, describe, expect, onTestFinished } from 'vitest';
import { service } from './app.js';
import { createListCache } from './list-cache.js';

let apps: TestApp[];

test.beforeAll(async () => {
	await addProject(test_.sql, 'first', 'first-key');
	await test_.sql`
		insert into company_contacts (bitrix_id, name, company_ids)
		select n, 'Contact ' || n, array[1 + n % 50] from generate_series(1, 2000) n`;
	const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };
	apps = await Promise.all([1, 2, 3].map(() => startTestApp(service, test_.url, { environment })));
});
afterAll(() => Promise.all((apps ?? []).map((app) => app.close())));

const list = (app: TestApp, rest = '', headers: Record<string, string> = {}) =>
	app.fetch(`/api/company_contacts.list?project=first&api_key=first-key${rest}`, { headers });

/** A cache of the real database's lists that counts its queries. `before` runs before each result. */
function counted(options: { maxBytes?: number; before?: () => Promise<void> } = {}) {
	const database = openDatabase({ url: test_.url, applicationName: 'counted', poolSize: 4, maxWaiting: 2000 });
	onTestFinished(() => database.close());
	const state = { queries: 0, finished: 0, current: true, now: 0 };
	const counting: Database = {
		...database,
		waiting: 0,
		async query(statement) {
			state.queries++;
			const rows = await database.query(statement);
			await options.before?.();
			state.finished++;
			return rows;
		},
	};
	const cache = createListCache({
		database: counting,
		subscription: state,
		registry: new Registry(),
		maxBytes: options.maxBytes ?? 10_000_000,
		maxListBytes: 10_000_000,
		clock: () => state.now,
	});
	const get = async (companyId?: string) => cache.find(companyId) ?? (await cache.read(companyId));
	const text = async (companyId?: string) =>
		String((await (await get(companyId)).representations?.get('identity'))?.body);
	return { cache, state, get, text };
}

test('a thousand simultaneous first requests cause one query', async () => {
	const { state, text } = counted();
	const texts = await Promise.all(Array.from({ length: 1000 }, () => text('7')));
	expect(new Set(texts).size).toBe(1);
	expect(state.queries).toBe(1);
	await text('7');
	expect(state.queries).toBe(1);
});

test('a list read before a change is not cached after it, and no later request receives it', async () => {
	let goOn: () => void = () => undefined;
	const held = new Promise<void>((resolve) => {
		goOn = resolve;
	});
	const { cache, state, text } = counted({ before: () => held });
	const early = text('7');
	await expect.poll(() => state.queries).toBe(1);
	cache.invalidate();
	const late = text('7');
	await expect.poll(() => state.queries).toBe(2);
	goOn();
	await Promise.all([early, late]);
	await text('7');
	expect(state.queries).toBe(2);
});

test('while the listener is disconnected, nothing is cached or served from memory', async () => {
	const { state, text } = counted();
	await text('7');
	state.current = false;
	await text('7');
	await text('7');
	expect(state.queries).toBe(3);
});

describe('without any notification', () => {
	const rename = (name: string) => test_.sql`update company_contacts set name = ${name} where bitrix_id = 6`;

	test('a stale list is served for at most two seconds', async () => {
		const { state, text } = counted();
		const before = await text('7');
		await rename(`Not announced ${performance.now()}`);
		// The version is read again only after two seconds.
		expect(await text('7')).toBe(before);
		state.now = 2000;
		expect(await text('7')).toContain('Not announced');
	});

	test('one read of the version, in the background after half a second, finds the change', async () => {
		const { state, text } = counted();
		const before = await text('7');
		await rename(`Found ${performance.now()}`);
		state.now = 499;
		await text('7');
		expect(state.queries).toBe(1);
		state.now = 500;
		expect(await text('7')).toBe(before);
		await expect.poll(() => text('7')).toContain('Found');
		// The list, the version, the list.
		expect(state.queries).toBe(3);
	});

	test('a thousand unchanged lists cost one query every half a second, and none is read again', async () => {
		const { state, text } = counted();
		const companies = Array.from({ length: 1000 }, (_, n) => String(n + 1));
		const before: string[] = [];
		for (const companyId of companies) before.push(await text(companyId));
		expect(state.queries).toBe(1000);
		for (let half = 1; half <= 6; half++) {
			state.now += 500;
			await Promise.all(companies.map(text));
			await expect.poll(() => state.finished).toBe(1000 + half);
			expect(await Promise.all(companies.map(text))).toEqual(before);
		}
		// No requests for a while: the first ones wait for the same read of the version.
		state.now += 60_000;
		expect(await Promise.all(companies.map(text))).toEqual(before);
		expect(state.queries).toBe(1007);
	});
});

test('an unchanged list that was read again is kept once, even while clients read it', async () => {
	const { cache, state, get } = counted();
	const first = (await get('7')).representations;
	cache.invalidate();
	expect((await get('7')).representations).toBe(first);
	await test_.sql`update company_contacts set name = 'Another' where bitrix_id = 6`;
	cache.invalidate();
	expect((await get('7')).representations).not.toBe(first);
	expect(state.queries).toBe(3);
});

test('memory is bounded, also for companies without contacts', async () => {
	const { state, get, text } = counted({ maxBytes: 50_000 });
	for (let company = 1; company <= 500; company++) await text(String(company + 1_000_000));
	await text('1000001');
	expect(state.queries).toBe(501);
	// Larger than all the memory: no body, and the cache remembers that.
	expect((await get(undefined)).representations).toBe(undefined);
	expect((await get(undefined)).representations).toBe(undefined);
	expect(state.queries).toBe(502);
});

test('no process serves the old list a hundred milliseconds after the commit of a change', async () => {
	const times: { begun: number; ended: number }[] = [];
	const stop = watchDelays(async () => (await list(apps[0] as TestApp, '&company_id=9')).text());
	for (let round = 0; round < 10; round++) {
		for (const each of apps) await (await list(each, '&company_id=7')).text();
		const name = `Changed ${round}`;
		await test_.sql`update company_contacts set name = ${name} where bitrix_id = 6`;
		const committed = performance.now();
		for (const each of apps) {
			await expect.poll(async () => (await list(each, '&company_id=7')).text(), { interval: 1 }).toContain(name);
			times.push({ begun: committed, ended: performance.now() });
		}
	}
	const machine = await stop();
	const slowest = Math.max(...times.map(({ begun, ended }) => ended - begun));
	const waited = machine.longest(times);
	console.log(
		`the new list was served within ${slowest.toFixed(0)} ms, ${waited.toFixed(0)} ms without delays of the machine, in three processes one after the other`,
	);
	// The promised time, and one more delay of a process whose control requests are not measured.
	expect(waited / machine.slowdown).toBeLessThan(100 + machine.slowest);
});

test('a lost listener connection is noticed, and changes made meanwhile are served at once', async () => {
	const proxy = await startTcpProxy(test_.url);
	const behind = await startTestApp(service, test_.url, { database: { url: proxy.through(test_.url) } });
	try {
		await (await list(behind, '&company_id=8')).text();
		await test_.sql`
			select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and query = 'listen "company_contacts_changed"'`;
		await test_.sql`update company_contacts set name = 'While disconnected' where bitrix_id = 7`;
		const isNew = async () => (await (await list(behind, '&company_id=8')).text()).includes('While disconnected');
		expect(await timeUntil(isNew, () => test_.sql`select 1`)).toBeLessThan(500);
	} finally {
		await behind.close();
		proxy.close();
	}
});

test('an unavailable database causes a 500, not an old list', async () => {
	const proxy = await startTcpProxy(test_.url);
	const behind = await startTestApp(service, test_.url, { database: { url: proxy.through(test_.url) } });
	try {
		expect((await list(behind)).status).toBe(200);
		proxy.cut();
		await expect.poll(async () => (await list(behind)).status, { interval: 1 }).toBe(500);
		await proxy.restore();
		await expect.poll(async () => (await list(behind)).status).toBe(200);
	} finally {
		await behind.close();
		proxy.close();
	}
});
