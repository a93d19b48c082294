import {
	closedLoop,
	countResults,
	openLoop,
	quantile,
	type Shot,
	type ShotResult,
	send,
	spread,
} from '@contacts/testing/load.js';
import { residentMiB } from '@contacts/testing/proc.js';
import type { RunningService } from '@contacts/testing/services.js';
import { watchStarvedTime } from '@contacts/testing/starved-time.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { addLoadProject, list, start, untilServed, upsert } from '../process/one-service.js';

test.beforeAll(addLoadProject);

const withResult = (outcomes: ShotResult[], result: number) => outcomes.filter((outcome) => outcome.result === result);

/** Sends far more than the service can handle, and checks the responses and the service. */
async function overload(
	service: RunningService,
	load: (send: (index: number) => Shot, seconds: number) => Promise<ShotResult[]>,
	next: (index: number) => Shot,
) {
	// Memory that a process allocates with its first work is not growth.
	await load((index) => next(-1 - index), 3);
	await vi.waitUntil(async () => (await send(service.url, next(-1))).result === 200, { timeout: 20_000 });
	const machine = watchStarvedTime(() => [service.pid]);
	const before = residentMiB(service.pid);
	const linesBefore = service.log().length;
	let most = before;
	const looking = setInterval(() => {
		most = Math.max(most, residentMiB(service.pid));
	}, 50);
	const [outcomes, live] = await Promise.all([
		load(next, 4),
		openLoop(service.url, 5, 4, (index) => ({ method: 'GET', path: index % 2 ? '/metrics' : '/health/live' })),
	]);
	clearInterval(looking);
	machine.stop();
	const [served, refused] = [withResult(outcomes, 200), withResult(outcomes, 503)];
	const lines = service.log().slice(linesBefore);
	/** The times for which the service itself had the requests of this status. The others are those of its busy clients, too. */
	const inService = (result: number) =>
		lines
			.filter(({ status }) => status === result)
			.map(({ duration_ms }) => ({ begun: 0, ended: Number(duration_ms) }));
	console.log(
		`${JSON.stringify(countResults(outcomes))}; served ${spread(served)}, of its own ${spread(served, machine.own)}, ` +
			`refused ${spread(refused)}, of its own ${spread(refused, machine.own)}, ` +
			`in the service served ${spread(inService(200))}, refused ${spread(inService(503))}; ` +
			`health and metrics ${spread(live)}; ${Math.round(before)} MiB before, ${Math.round(most)} MiB at most`,
	);
	// Who came before the overload showed may run out of time. The others do only when the machine is starved.
	const failed = withResult(outcomes, 500);
	const shown = Math.min(...outcomes.map(({ begun }) => begun)) + 1000;
	const unexplained = failed.filter((each) => each.begun > shown && machine.during(each) < 1000);
	expect(served.length + refused.length + failed.length).toBe(outcomes.length);
	expect(failed.length).toBeLessThan(refused.length);
	expect(unexplained.length).toBeLessThanOrEqual(outcomes.length / 100);
	expect(new Set(refused.map(({ retryAfter }) => retryAfter))).toEqual(new Set(['1']));
	// Clients on a busy machine send less than they would.
	expect(refused.length).toBeGreaterThan(outcomes.length / 4);
	// A refusal waits for nothing.
	for (const part of [0.5, 0.75]) expect(quantile(inService(503), part)).toBeLessThan(quantile(inService(200), part));
	expect(quantile(inService(503), 0.5)).toBeLessThan(50);
	expect(quantile(refused, 0.5, machine.own)).toBeLessThan(500);
	// No client waits longer than for the deadline of a request, with a second for its own work.
	for (const each of [served, refused]) expect(quantile(each, 1, machine.own)).toBeLessThan(5000);
	expect(countResults(live)).toEqual({ 200: live.length });
	// 32 MiB of new objects, and a list of 64 KiB for each of the 1,000 callers that a process has at most.
	expect(most - before).toBeLessThan(32 + 64);
	return { served, failed };
}

/** Checks that the service serves as usual within a second after the last response. */
async function recovers(service: RunningService, next: (index: number) => Shot): Promise<void> {
	const machine = watchStarvedTime(() => [service.pid]);
	const begun = performance.now();
	await untilServed(service, next);
	const time = { begun, ended: performance.now() };
	machine.stop();
	console.log(`served again after ${Math.round(time.ended - begun)} ms, ${Math.round(machine.own(time))} of its own`);
	expect(machine.own(time)).toBeLessThan(1000);
}

describe('ten times the load that can be served', () => {
	test('a slow database: excess requests are refused faster than others are served, and the service recovers', async () => {
		await database.sql.unsafe(`
			create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(0.05); return new; end $$;
			create trigger slowly before insert on personal_contacts for each row execute function slowly();`);
		onTestFinished(async () => void (await database.sql`drop trigger slowly on personal_contacts`));
		// 10 connections, 50 ms each: 200 a second.
		const service = await start('personal-contacts');
		const { served, failed } = await overload(
			service,
			(next, seconds) => openLoop(service.url, 2000, seconds, next),
			(index) => upsert(2_000_000 + index),
		);
		// More load does not reduce the throughput.
		expect(served.length).toBeGreaterThan(400);
		const chats = await database.sql`select from personal_contacts where chat_id between 2000000 and 2999999`;
		// A failed one may have been stored.
		expect(chats.length).toBeGreaterThanOrEqual(served.length);
		expect(chats.length).toBeLessThanOrEqual(served.length + failed.length);
		await recovers(service, upsert);
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
		await recovers(service, () => list(1));
	});
});
