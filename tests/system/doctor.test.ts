import { freePort } from '@contacts/local-postgres/ports.js';
import { startRedis } from '@contacts/testing/redis.js';
import { database, test } from '@contacts/testing/test.js';
import { Redis } from 'ioredis';
import { expect, onTestFinished } from 'vitest';
import { contacts } from '../command.js';

test('contacts doctor reports a healthy Redis, one that evicts keys, and one that requires a password', async () => {
	const port = await freePort();
	const server = await startRedis(port);
	onTestFinished(() => server.stop());
	const redis = new Redis(port);
	onTestFinished(() => redis.disconnect());
	/** The findings about this Redis. */
	async function look(password = '') {
		const REDIS_URL = `redis://${password}127.0.0.1:${port}`;
		const { out } = await contacts(['doctor', '--json'], { DATABASE_URL: database.url, REDIS_URL });
		expect(out).not.toContain('canary');
		const { findings } = JSON.parse(out) as { findings: { check: string }[] };
		return findings.filter(({ check }) => check === 'redis');
	}

	expect(await look()).toMatchObject([{ state: 'ok' }]);
	await redis.config('SET', 'maxmemory', '100mb');
	await redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
	const [message, advice] = ['allkeys-lru', 'noeviction'].map((text) => expect.stringContaining(text));
	expect(await look()).toMatchObject([{ state: 'warning', message, advice }]);
	await redis.config('SET', 'maxmemory-policy', 'noeviction');
	await redis.config('SET', 'requirepass', 'secret');
	const refused = [{ state: 'problem', message: expect.stringContaining('refuses the user or the password') }];
	for (const password of ['', ':canary@']) expect(await look(password)).toMatchObject(refused);
	expect(await look(':secret@')).toMatchObject([{ state: 'ok' }]);
});
