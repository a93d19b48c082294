import { type BucketPolicy, decide } from '@contacts/common/http/token-bucket.js';
import { service } from '@contacts/company-contacts/app.js';
import { connectRedisBuckets, script } from '@contacts/company-contacts/rate-limit/redis-token-bucket.js';
import { freePort } from '@contacts/local-postgres/ports.js';
import { addProject, startTestApp } from '@contacts/testing/app.js';
import type { RunningProcess } from '@contacts/testing/process.js';
import { startRedis } from '@contacts/testing/redis.js';
import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database, test } from '@contacts/testing/test.js';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';

let server: RunningProcess;
let redis: Redis;
let url: string;

beforeAll(async () => {
	const port = await freePort();
	server = await startRedis(port);
	url = `redis://127.0.0.1:${port}`;
	redis = new Redis(url);
});
afterAll(async () => {
	redis?.disconnect();
	await server?.stop();
});

test('a bucket in Redis expires when it would be full, even after an arrival far ahead of the clock', async () => {
	const buckets = connectRedisBuckets(url, { perSecond: 5, burst: 250 }, 5000);
	onTestFinished(() => buckets.close());
	const take = (project: string) => buckets.take(project).catch(() => undefined);
	await expect.poll(() => take('connected')).toMatchObject({ admitted: true });
	await redis.set('company-contacts:bucket:project', String(Date.now() + 86_400_000));
	expect(await take('project')).toEqual({ admitted: false, remaining: 0, waitMs: 200 });
	const ttl = await redis.pttl('company-contacts:bucket:project');
	expect(ttl).toBeGreaterThan(0);
	expect(ttl).toBeLessThanOrEqual(50_000);
});

test('a bucket that somebody has overwritten decides again, and expires', async () => {
	const buckets = connectRedisBuckets(url, { perSecond: 5, burst: 250 }, 5000);
	onTestFinished(() => buckets.close());
	await expect.poll(() => buckets.take('connected').catch(() => undefined)).toMatchObject({ admitted: true });
	const name = 'company-contacts:bucket:poisoned';
	const full = { admitted: true, remaining: 249, waitMs: 200 };
	const empty = { admitted: false, remaining: 0, waitMs: 200 };
	for (const [value, decision] of [
		...['nan', '-nan', 'text', '', '1,5', '-inf', '-1e300'].map((text) => [text, full] as const),
		...['inf', '1e300', '1e15'].map((text) => [text, empty] as const),
	]) {
		await redis.set(name, value);
		expect([value, await buckets.take('poisoned')]).toEqual([value, decision]);
		expect([value, Number(await redis.get(name))]).toEqual([value, expect.closeTo(Date.now() + 25_000, -5)]);
		expect(await redis.pttl(name)).toBeGreaterThan(0);
	}
	await redis.del(name);
	await redis.lpush(name, 'a list');
	expect(await buckets.take('poisoned')).toEqual(full);
});

test('the script in Redis decides like the process, however clock and limits change', async () => {
	// The same script with a clock as a parameter, so that no key expires by Redis's own clock. Each step is a whole number of
	// 1/8 ms, which both sides hold exactly.
	const clocked = script
		.replace("redis.call('TIME')", '{ 0, ARGV[3] * 1000 }')
		.replaceAll(/, 'PX', math\.ceil\([^)]*\)/g, '');
	expect(clocked).not.toMatch(/TIME|PX/);
	const policy = fc.record({
		perSecond: fc.constantFrom(1, 2, 4, 5, 8, 10, 20, 40, 50, 100, 125, 1000),
		burst: fc.constantFrom(1, 2, 3, 7, 40, 250, 600),
	});
	const step = fc.record({
		// Forward by up to the time that fills a bucket, or back by up to an hour.
		move: fc.oneof(fc.constant(0), fc.nat({ max: 8 * 2000 }), fc.integer({ min: -8 * 3_600_000, max: 8 * 600_000 })),
		limits: fc.option(policy, { freq: 4 }),
		requests: fc.integer({ min: 1, max: 20 }),
	});
	const seen = { admitted: 0, refused: 0, clamped: 0 };
	const check = async (
		first: BucketPolicy,
		steps: { move: number; limits: BucketPolicy | null; requests: number }[],
	) => {
		await redis.del('bucket');
		let [limits, now, arrival] = [first, 100_000_000, 0];
		for (const each of steps) {
			now = Math.max(now + each.move / 8, 1);
			limits = each.limits ?? limits;
			for (let request = 0; request < each.requests; request++) {
				if (arrival > now + (limits.burst * 1000) / limits.perSecond) seen.clamped++;
				const [decision, next] = decide(limits, arrival, now);
				arrival = next;
				seen[decision.admitted ? 'admitted' : 'refused']++;
				const { admitted, remaining, waitMs } = decision;
				const reply = await redis.eval(clocked, 1, 'bucket', limits.perSecond, limits.burst, now);
				expect(reply).toEqual([admitted ? 1 : 0, remaining, waitMs]);
			}
		}
	};
	await fc.assert(fc.asyncProperty(policy, fc.array(step, { minLength: 1, maxLength: 12 }), check), { numRuns: 150 });
	expect(Math.min(...Object.values(seen))).toBeGreaterThan(100);
	expect(seen.admitted + seen.refused).toBeGreaterThan(5000);
});

test('a primary that becomes a replica without closing its connections is left for the new one', async () => {
	const [formerPort, nextPort] = [await freePort(), await freePort()];
	const servers = await Promise.all([startRedis(formerPort), startRedis(nextPort)]);
	const [former, next] = [new Redis(formerPort), new Redis(nextPort)];
	const network = await startTcpProxy(`redis://127.0.0.1:${formerPort}`);
	const buckets = connectRedisBuckets(
		network.through(`redis://127.0.0.1:${formerPort}`),
		{ perSecond: 1, burst: 9 },
		5000,
	);
	onTestFinished(async () => {
		buckets.close();
		for (const each of [former, next]) each.disconnect();
		network.close();
		await Promise.all(servers.map((each) => each.stop()));
	});
	const take = () => buckets.take('project').catch(({ message }: Error) => message);
	await expect.poll(take).toMatchObject({ admitted: true });
	await former.replicaof('127.0.0.1', nextPort);
	network.redirect(`redis://127.0.0.1:${nextPort}`);
	expect(await take()).toContain('READONLY');
	await expect.poll(take).toMatchObject({ admitted: true });
	expect(await next.exists('company-contacts:bucket:project')).toBe(1);
});

test('while Redis hangs one request notices, and none takes a token when Redis goes on', async () => {
	await addProject(database.sql, 'one', 'one-key');
	let now = 0;
	// At each request it is time to ask Redis again.
	const clock = () => (now += 300);
	const app = await startTestApp(service, database.url, { environment: { REDIS_URL: url }, clock });
	onTestFinished(() => app.close());
	const remaining = async () => {
		const response = await app.fetch('/api/company_contacts.list?company_id=1&project=one&api_key=one-key');
		return Number(response.headers.get('ratelimit-remaining'));
	};
	const isShared = async () => (await (await app.fetch('/metrics')).text()).includes('rate_limit_redis_up 1');
	await expect.poll(isShared).toBe(true);
	expect(await remaining()).toBe(249);
	server.kill('SIGSTOP');
	onTestFinished(() => void server.kill('SIGCONT'));
	for (let n = 0; n < 20; n++) expect(await remaining()).toBeGreaterThan(200);
	server.kill('SIGCONT');
	await redis.ping();
	await expect.poll(isShared).toBe(true);
	// Redis refills the bucket meanwhile. Only the request that noticed took a token late.
	expect(await remaining()).toBeGreaterThanOrEqual(247);
});
