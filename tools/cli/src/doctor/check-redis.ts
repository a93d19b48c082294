import { isUrl } from '@contacts/common/process/config.js';
import { Redis } from 'ioredis';
import { type Check, problem, skipped, warning } from './check.js';

/** Whether the Redis that replicas share the rate limit through is up and does not evict keys. */
export async function* checkRedis(url: string | undefined): Check {
	if (!url) {
		yield skipped('REDIS_URL is not set: each process of company-contacts has its own limit.');
		return '';
	}
	if (!isUrl(url, ['redis:', 'rediss:'])) {
		yield problem('REDIS_URL is no URL like redis://:password@host:6379.', 'Percent-encode @ / ? # % in the password.');
		return '';
	}
	const { host } = new URL(url);
	const redis = new Redis(url, {
		lazyConnect: true,
		connectTimeout: 3000,
		commandTimeout: 3000,
		maxRetriesPerRequest: 0,
		retryStrategy: () => null,
	});
	let reason: Error | undefined;
	redis.on('error', (error: Error) => {
		reason ??= error;
	});
	try {
		await redis.connect();
		const info = await redis.info();
		const policy = /maxmemory_policy:([\w-]+)/.exec(info)?.[1] ?? 'noeviction';
		if (!/maxmemory:0\b/.test(info) && policy !== 'noeviction')
			yield warning(
				`Redis evicts keys when its memory is full (maxmemory-policy ${policy}): a project whose bucket is evicted has all its tokens again.`,
				'Set maxmemory-policy to noeviction, or use a separate Redis.',
			);
	} catch (error) {
		const { message } = reason ?? (error as Error);
		if (/NOAUTH|WRONGPASS|invalid password/i.test(message))
			yield problem(`Redis at ${host} refuses the user or the password.`, 'Correct REDIS_URL.');
		else if (/NOPERM/.test(message))
			yield problem(`Redis at ${host} lets this user do too little.`, 'Allow what operations/redis/redis.conf allows.');
		else
			yield problem(
				`Redis at ${host} does not respond (${/E[A-Z]{4,}/.exec(message)?.[0] ?? 'no reply in time'}): each process has its own limit meanwhile.`,
				'Start it, or correct REDIS_URL.',
			);
	} finally {
		redis.disconnect();
	}
	return `Redis at ${host} responds.`;
}
