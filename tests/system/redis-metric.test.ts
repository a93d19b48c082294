import { service } from '@contacts/company-contacts/app.js';
import { startTestApp, type TestApp } from '@contacts/testing/app.js';
import { freePort } from '@contacts/testing/ports.js';
import { startRedis } from '@contacts/testing/redis.js';
import { database, test } from '@contacts/testing/test.js';
import { Redis } from 'ioredis';
import { describe, expect, onTestFinished } from 'vitest';

async function isUp(app: TestApp): Promise<string | undefined> {
	const text = await (await app.fetch('/metrics')).text();
	return /^rate_limit_redis_up (\d)$/m.exec(text)?.[1];
}

/** An app that receives no requests but those for its metrics, with its own Redis. */
async function openIdle() {
	const port = await freePort();
	let redis = await startRedis(port);
	onTestFinished(() => redis.stop());
	const url = `redis://127.0.0.1:${port}`;
	const app = await startTestApp(service, database.url, { environment: { REDIS_URL: url } });
	onTestFinished(() => app.close());
	await expect.poll(() => isUp(app)).toBe('1');
	return {
		app,
		url,
		stop: () => redis.stop(),
		async restart() {
			redis = await startRedis(port);
		},
	};
}

describe('without any limited request, rate_limit_redis_up', () => {
	test('is 0 when Redis was stopped, and 1 when it is back', async () => {
		const { app, stop, restart } = await openIdle();
		await stop();
		await expect.poll(() => isUp(app)).toBe('0');
		await restart();
		await expect.poll(() => isUp(app)).toBe('1');
	});

	test('is 0 while Redis responds but refuses to store anything', async () => {
		const { app, url } = await openIdle();
		const redis = new Redis(url);
		onTestFinished(() => redis.disconnect());
		await redis.config('SET', 'maxmemory', '1');
		await expect.poll(() => isUp(app)).toBe('0');
		expect(await redis.ping()).toBe('PONG');
		await redis.config('SET', 'maxmemory', '0');
		await expect.poll(() => isUp(app)).toBe('1');
	});
});
