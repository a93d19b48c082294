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
import { watchDelays } from '@contacts/testing/machine-delays.js';
import { residentMiB } from '@contacts/testing/proc.js';
import type { RunningService } from '@contacts/testing/services.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished, vi } from 'vitest';
import {
	addLoadProject,
	list,
	start,
	untilServed,
	upsert,
	watchMachine,
	withoutDelays,
} from '../process/one-service.js';

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
	const stopWatching = await watchMachine(service);
	const before = residentMiB(service.pid);
	let most = before;
	const looking = setInterval(() => {
		most = Math.max(most, residentMiB(service.pid));
	}, 50);
	const stopOfDatabase = watchDelays(() => database.sql`select 1`);
	const [outcomes, live] = await Promise.all([
		load(next, 4),
		openLoop(service.url, 5, 4, (index) => ({ method: 'GET', path: index % 2 ? '/metrics' : '/health/live' })),
	]);
	clearInterval(looking);
	const [ofDatabase, machine] = [await stopOfDatabase(), await stopWatching()];
	const [served, refused] = [withResult(outcomes, 200), withResult(outcomes, 503)];
	const [handled, refusals] = [withoutDelays(served, machine), withoutDelays(refused, machine)];
	console.log(
		`${JSON.stringify(countResults(outcomes))}; served ${spread(served)}, without delays ${spread(handled)}, refused ${spread(refused)}, ` +
			`without delays ${spread(refusals)}, ` +
			`health and metrics ${spread(live)}; ${Math.round(before)} MiB before, ${Math.round(most)} MiB at most`,
	);
	// The database shares the processor here. When it is starved, a statement may exceed its timeout of three seconds. Then
	// the database delays the statements of this test too.
	const failed = withResult(outcomes, 500);
	const delayOf = ({ begun, latency }: ShotResult) =>
		Math.max(...[ofDatabase, machine].map((each) => each.during(begun, begun + latency)));
	const unexplained = failed.filter((outcome) => delayOf(outcome) < 1000);
	expect(served.length + refused.length + failed.length).toBe(outcomes.length);
	expect(failed.length).toBeLessThanOrEqual(outcomes.length / 10);
	expect(unexplained.length).toBeLessThanOrEqual(outcomes.length / 100);
	expect(new Set(refused.map(({ retryAfter }) => retryAfter))).toEqual(new Set(['1']));
	expect(refused.length).toBeGreaterThan(served.length);
	// A refusal waits for nothing. Both are 0 where only the machine delayed them.
	for (const part of [0.5, 0.75]) expect(quantile(refusals, part)).toBeLessThanOrEqual(quantile(handled, part));
	expect(quantile(refusals, 0.5)).toBeLessThan(500 * machine.slowdown);
	expect(quantile(refusals, 0.95)).toBeLessThan(1500 * machine.slowdown);
	expect(quantile(handled, 1)).toBeLessThan(5000 * machine.slowdown);
	expect(countResults(live)).toEqual({ 200: live.length });
	// 32 MiB of new objects, and a list of 64 KiB for each of the 1,000 callers that a process has at most.
	expect(most - before).toBeLessThan(32 + 64);
	return { served, failed, slowdown: machine.slowdown };
}

/** Checks that the service serves as usual within a second after the last response. */
async function recovers(service: RunningService, next: (index: number) => Shot): Promise<void> {
	const stop = watchDelays(() => database.sql`select 1`, service.pid);
	const begun = performance.now();
	const taken = await untilServed(service, next);
	const machine = await stop();
	const delay = machine.during(begun, begun + taken);
	console.log(`served again after ${Math.round(taken)} ms, of which ${Math.round(delay)} ms are delays of the machine`);
	expect(taken - delay).toBeLessThan(1000 * machine.slowdown);
}

describe('ten times the load that can be served', () => {
	test('a slow database: excess requests are refused faster than others are served, and the service recovers', async () => {
		await database.sql.unsafe(`
			create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(0.05); return new; end $$;
			create trigger slowly before insert on personal_contacts for each row execute function slowly();`);
		onTestFinished(async () => void (await database.sql`drop trigger slowly on personal_contacts`));
		// 10 connections, 50 ms each: 200 a second.
		const service = await start('personal-contacts');
		const { served, failed, slowdown } = await overload(
			service,
			(next, seconds) => openLoop(service.url, 2000, seconds, next),
			(index) => upsert(2_000_000 + index),
		);
		// More load does not reduce the throughput.
		expect(served.length).toBeGreaterThan(400 / slowdown);
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
