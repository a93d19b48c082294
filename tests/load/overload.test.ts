import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import {
	closedLoop,
	countResults,
	type Outcome,
	openLoop,
	quantile,
	type Shot,
	send,
	spread,
} from '@contacts/testing/load.js';
import { residentMiB } from '@contacts/testing/proc.js';
import { type RunningService, startService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';

const credentials = 'project=load&api_key=load-key';

test.beforeAll(async () => {
	await addProject(database.sql, 'load', 'load-key');
});

async function start(
	name: 'personal-contacts' | 'company-contacts',
	environment: Record<string, string> = {},
): Promise<RunningService> {
	const service = await startService(name, {
		DATABASE_URL: urlAs(database.url, name, rolePassword),
		...environment,
	});
	onTestFinished(() => service.stop());
	return service;
}

const upsert = (chatId: number): Shot => ({
	method: 'POST',
	path: `/api/personal_contacts?${credentials}`,
	body: JSON.stringify({ chat_id: chatId || 1, name: `name ${chatId}` }),
});
const list = (companyId: number): Shot => ({
	method: 'GET',
	path: `/api/company_contacts.list?${credentials}&company_id=${companyId}`,
});

const withResult = (outcomes: Outcome[], result: number) => outcomes.filter((outcome) => outcome.result === result);

/** Sends far more than the service can handle, and checks the responses and the service. */
async function overload(
	service: RunningService,
	load: (send: (index: number) => Shot, seconds: number) => Promise<Outcome[]>,
	next: (index: number) => Shot,
) {
	// Memory that a process allocates with its first work is not growth.
	await load((index) => next(-1 - index), 1);
	await vi.waitUntil(async () => (await send(service.url, next(-1))).result === 200, { timeout: 10_000 });
	const before = residentMiB(service.pid);
	let most = before;
	const looking = setInterval(() => {
		most = Math.max(most, residentMiB(service.pid));
	}, 50);
	let live: Outcome[] = [];
	const [outcomes] = await Promise.all([
		load(next, 4),
		openLoop(service.url, 5, 4, (index) => ({
			method: 'GET',
			path: index % 2 ? '/metrics' : '/health/live',
		})).then((all) => {
			live = all;
		}),
	]);
	clearInterval(looking);
	const [served, refused] = [withResult(outcomes, 200), withResult(outcomes, 503)];
	console.log(
		`${JSON.stringify(countResults(outcomes))}; served ${spread(served)}, refused ${spread(refused)}, ` +
			`health and metrics ${spread(live)}; ${Math.round(before)} MiB before, ${Math.round(most)} MiB at most`,
	);
	// The database shares the processor here. When it is starved, a statement may exceed its timeout.
	const failed = withResult(outcomes, 500);
	expect(served.length + refused.length + failed.length).toBe(outcomes.length);
	expect(failed.length).toBeLessThanOrEqual(outcomes.length / 10);
	expect(new Set(refused.map(({ retryAfter }) => retryAfter))).toEqual(new Set(['1']));
	expect(refused.length).toBeGreaterThan(served.length);
	// A refusal waits for nothing. The delay of the machine and the clients affects both measurements.
	expect(quantile(refused, 0.5)).toBeLessThan(quantile(served, 0.5));
	expect(quantile(served, 1)).toBeLessThan(5000);
	expect(countResults(live)).toEqual({ 200: live.length });
	expect(most - before).toBeLessThan(96);
	return { served, refused };
}

/** Waits until three requests in a row are served: usually less than a second. */
async function untilUsual(service: RunningService, next: (index: number) => Shot): Promise<void> {
	const begun = performance.now();
	for (let index = 0, inRow = 0; inRow < 3; index++) {
		const { result } = await send(service.url, next(1_000_000 + index));
		inRow = result === 200 ? inRow + 1 : 0;
		if (performance.now() - begun > 20_000) throw new Error(`still ${result} after twenty seconds`);
	}
	console.log(`as usual after ${Math.round(performance.now() - begun)} ms`);
}

describe('ten times the load that can be served', () => {
	test('a slow database: excess requests are refused faster than others are served, and the service recovers', async () => {
		await database.sql.unsafe(`
			create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(0.05); return new; end $$;
			create trigger slowly before insert on personal_contacts for each row execute function slowly();`);
		onTestFinished(async () => void (await database.sql`drop trigger slowly on personal_contacts`));
		// 10 connections, 50 ms each: 200 a second.
		const service = await start('personal-contacts');
		const { served } = await overload(
			service,
			(next, seconds) => openLoop(service.url, 2000, seconds, next),
			(index) => upsert(2_000_000 + index),
		);
		// More load does not reduce the throughput.
		expect(served.length).toBeGreaterThan(400);
		const chats = await database.sql`select from personal_contacts where chat_id between 2000000 and 2999999`;
		expect(chats.length).toBe(served.length);
		await untilUsual(service, upsert);
	});

	test('a busy processor: 500 clients that request lists again as soon as they are refused', async () => {
		// 1,000 companies with 200 contacts each: 60 KB a list. The smallest list cache holds only a few.
		await database.sql`
			insert into company_contacts (bitrix_id, name, company_ids)
			select n, repeat('x', 60), array(select (n * 20 + k) % 1000 + 1 from generate_series(0, 19) as k)::bigint[]
			from generate_series(1, 10000) as n`;
		onTestFinished(async () => void (await database.sql`delete from company_contacts`));
		const service = await start('company-contacts', {
			RATE_LIMIT_PER_SECOND: '1000000',
			RATE_LIMIT_BURST: '1000000',
			LIST_CACHE_MEGABYTES: '1',
		});
		const { served } = await overload(
			service,
			(next, seconds) => closedLoop(service.url, 500, seconds, next),
			(index) => list((Math.abs(index) % 1000) + 1),
		);
		expect(served.length).toBeGreaterThan(50);
		await untilUsual(service, () => list(1));
	});
});

describe('slow clients do not block others', () => {
	/** Connections that stay idle until the end of the test. The service decides how many stay open. */
	async function connectMany(service: RunningService, count: number, use: (socket: Socket, index: number) => void) {
		const port = Number(new URL(service.url).port);
		const sockets: Socket[] = [];
		onTestFinished(() => {
			for (const socket of sockets) socket.destroy();
		});
		while (sockets.length < count) {
			const batch = Array.from({ length: Math.min(200, count - sockets.length) }, () =>
				connect({ port, host: '127.0.0.1' }),
			);
			sockets.push(...batch);
			await Promise.all(batch.map((socket) => once(socket, 'connect')));
		}
		for (const [index, socket] of sockets.entries()) {
			socket.on('error', () => undefined);
			use(socket, index);
		}
		return sockets;
	}

	/** A client that sends one request after another, each of which must succeed. */
	async function probe(service: RunningService, what: string, next: (index: number) => Shot): Promise<void> {
		const outcomes = await openLoop(service.url, 50, 4, next);
		console.log(`${what}: ${spread(outcomes)}, ${Math.round(residentMiB(service.pid))} MiB`);
		expect(countResults(outcomes)).toEqual({ 200: outcomes.length });
		// The limit that holds for any request. Here it takes some milliseconds, unless the machine itself stalls.
		expect(quantile(outcomes, 1)).toBeLessThan(5000);
	}

	test('5,000 idle connections', async () => {
		const service = await start('personal-contacts');
		const before = residentMiB(service.pid);
		const sockets = await connectMany(service, 5000, (socket) => socket.resume());
		await probe(service, '5,000 idle connections', upsert);
		expect(residentMiB(service.pid) - before).toBeLessThan(200);
		// The service closes them when no request comes in time.
		await vi.waitUntil(() => sockets.every((socket) => socket.closed), { timeout: 30_000 });
	});

	test('headers and bodies that come byte by byte', async () => {
		const service = await start('personal-contacts');
		const head = `POST /api/personal_contacts?${credentials} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`;
		const sockets = await connectMany(service, 1000, (socket, index) => {
			socket.resume();
			socket.write(index % 2 ? head : `${head}Content-Length: 1000\r\n\r\n{`);
		});
		const dripping = setInterval(() => {
			for (const [index, socket] of sockets.entries())
				if (socket.writable) socket.write(index % 2 ? 'X-Slow: 1\r\n' : ' ');
		}, 200);
		onTestFinished(() => clearInterval(dripping));
		await probe(service, '1,000 slow senders', upsert);
		await vi.waitUntil(() => sockets.every((socket) => socket.closed), { timeout: 30_000 });
	});

	test('responses that are not read', async () => {
		await database.sql`
			insert into company_contacts (bitrix_id, name, company_ids)
			select n, repeat('x', 1000), '{1}' from generate_series(1, 5000) as n`;
		onTestFinished(async () => void (await database.sql`delete from company_contacts`));
		const service = await start('company-contacts', { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000' });
		await send(service.url, list(1));
		const before = residentMiB(service.pid);
		const request = `GET ${list(1).path} HTTP/1.1\r\nHost: a\r\n\r\n`;
		await connectMany(service, 500, (socket) => {
			socket.pause();
			socket.write(request);
		});
		// All of them at once exceed the limit of concurrent requests.
		await untilUsual(service, () => list(2));
		await probe(service, '500 clients that do not read 5 MB', () => list(2));
		// The list that all of them requested is kept only once.
		expect(residentMiB(service.pid) - before).toBeLessThan(200);
	});

	test.each([
		['that are read', true],
		['that are not read', false],
	])('floods of pipelined requests on four connections, with responses %s', async (_, reads) => {
		const service = await start('personal-contacts');
		const before = residentMiB(service.pid);
		const many = Buffer.from('GET / HTTP/1.1\r\nHost:a\r\n\r\n'.repeat(2000));
		await connectMany(service, 4, (socket) => {
			if (reads) socket.resume();
			else socket.pause();
			const flood = () => {
				while (socket.writable && socket.write(many));
			};
			socket.on('drain', flood);
			flood();
		});
		await probe(service, `pipelined requests, read: ${reads}`, upsert);
		expect(residentMiB(service.pid) - before).toBeLessThan(150);
	});
});
