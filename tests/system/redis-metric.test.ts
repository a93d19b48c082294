import { service } from '@contacts/company-contacts/app.js';
import { freePort } from '@contacts/local-postgres/ports.js';
import { startTestApp } from '@contacts/testing/app.js';
import { startRedis } from '@contacts/testing/redis.js';
import { database, test } from '@contacts/testing/test.js';
import { Redis } from 'ioredis';
import { expect, onTestFinished } from 'vitest';

test('without any limited request, rate_limit_redis_up is 0 while Redis stores nothing or is stopped, and 1 when it is back', async () => {
	const port = await freePort();
	let server = await startRedis(port);
	onTestFinished(() => server.stop());
	const url = `redis://127.0.0.1:${port}`;
	const app = await startTestApp(service, database.url, { environment: { REDIS_URL: url } });
	onTestFinished(() => app.close());
	const isUp = async () => /^rate_limit_redis_up (\d)$/m.exec(await (await app.fetch('/metrics')).text())?.[1];
	await expect.poll(isUp).toBe('1');

	const redis = new Redis(url);
	await redis.config('SET', 'maxmemory', '1');
	await expect.poll(isUp).toBe('0');
	expect(await redis.ping()).toBe('PONG');
	await redis.config('SET', 'maxmemory', '0');
	await expect.poll(isUp).toBe('1');
	redis.disconnect();

	await server.stop();
	await expect.poll(isUp).toBe('0');
	server = await startRedis(port);
	await expect.poll(isUp).toBe('1');
});
