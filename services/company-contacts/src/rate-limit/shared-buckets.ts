import { Redis } from 'ioredis';
import type { BucketPolicy, Decision } from './token-bucket.js';

/** Buckets that all replicas share, in Redis. */
export interface SharedBuckets {
	/** @throws when Redis has not answered within the deadline, or can't be reached */
	take(name: string): Promise<Decision>;
	close(): void;
}

/**
 * The algorithm of `token-bucket.ts` as one script, which Redis runs atomically, on Redis's own clock: the replicas' clocks
 * need not agree. A bucket that is full again is forgotten. Of a refused request nothing is written, unless the arrival that
 * was kept is later than it can be.
 */
export const script = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local interval = 1000 / ARGV[1]
local burst = tonumber(ARGV[2])
local arrival = tonumber(redis.call('GET', KEYS[1]) or '0')
local begun = math.min(math.max(arrival, now), now + burst * interval)
local tolerance = (burst - 1) * interval
if begun - now > tolerance then
  if begun < arrival then
    redis.call('SET', KEYS[1], string.format('%.3f', begun), 'PX', math.ceil(begun - now))
  end
  return { 0, 0, math.ceil(begun - now - tolerance) }
end
local next = begun + interval
redis.call('SET', KEYS[1], string.format('%.3f', next), 'PX', math.ceil(next - now))
return { 1, math.floor((burst * interval - (next - now)) / interval + 1e-6), math.ceil(next - now) }
`;

/** @param deadline milliseconds within which Redis must have answered */
export function connectSharedBuckets(url: string, policy: BucketPolicy, deadline: number): SharedBuckets {
	const redis = new Redis(url, {
		connectionName: 'company-contacts',
		connectTimeout: 2000,
		// A request never waits for Redis to come back, nor is it sent later: its own process has decided by then.
		enableOfflineQueue: false,
		maxRetriesPerRequest: 0,
		retryStrategy: (attempt) => Math.min(attempt * 50, 500),
		scripts: { takeToken: { lua: script, numberOfKeys: 1 } },
	});
	// Every failure is seen by the request that it concerns; without a listener one of a connection would end the process.
	redis.on('error', () => undefined);
	type Reply = [admitted: number, remaining: number, wait: number];
	const takeToken = (redis as unknown as { takeToken(key: string, ...args: number[]): Promise<Reply> }).takeToken.bind(
		redis,
	);
	return {
		async take(name) {
			const reply = takeToken(`company-contacts:bucket:${name}`, policy.perSecond, policy.burst);
			const [admitted, remaining, wait] = await within(deadline, reply);
			return { admitted: admitted === 1, remaining, wait };
		},
		close: () => redis.disconnect(),
	};
}

/**
 * The client's own timeout would blame Redis for a busy process: its timer fires before the answer is read that has been
 * there for long. So once the time is up, what has arrived is read first.
 */
function within<T>(deadline: number, reply: Promise<T>): Promise<T> {
	return new Promise((resolve, reject) => {
		const timer = setTimeout(() => setImmediate(reject, new Error(`no answer within ${deadline} ms`)), deadline);
		reply.then(resolve, reject).finally(() => clearTimeout(timer));
	});
}
