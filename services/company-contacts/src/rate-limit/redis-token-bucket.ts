import type { BucketPolicy, Decision } from '@contacts/common/http/token-bucket.js';
import { Redis } from 'ioredis';

/** Token buckets in Redis, which all replicas share. */
interface RedisBuckets {
	/** @throws when Redis does not respond in time or cannot be reached */
	take(name: string): Promise<Decision>;
	close(): void;
}

/**
 * The algorithm of `token-bucket.ts` as one script. Redis runs it atomically and uses its own clock, so the clocks of the
 * replicas need not agree. A full bucket expires. A refused request writes nothing, unless the stored arrival is impossibly late.
 * What is no number counts as no bucket, and is overwritten: with `nan`, which `min` and `max` let through, no decision is possible.
 */
export const script = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local interval = 1000 / ARGV[1]
local burst = tonumber(ARGV[2])
local arrival = tonumber(redis.pcall('GET', KEYS[1]))
if not arrival or arrival ~= arrival then arrival = 0 end
local effectiveArrival = math.min(math.max(arrival, now), now + burst * interval)
local tolerance = (burst - 1) * interval
if effectiveArrival - now > tolerance then
  if effectiveArrival < arrival then
    redis.call('SET', KEYS[1], string.format('%.3f', effectiveArrival), 'PX', math.ceil(effectiveArrival - now))
  end
  return { 0, 0, math.ceil(effectiveArrival - now - tolerance) }
end
local next = effectiveArrival + interval
-- 1e-6, not 1e-9 as in a process: milliseconds since 1970 have a larger rounding error.
redis.call('SET', KEYS[1], string.format('%.3f', next), 'PX', math.ceil(next - now))
return { 1, math.floor((burst * interval - (next - now)) / interval + 1e-6), math.ceil(next - now) }
`;

/** @param timeoutMs Redis must respond within this time */
export function connectRedisBuckets(url: string, policy: BucketPolicy, timeoutMs: number): RedisBuckets {
	const redis = new Redis(url, {
		connectionName: 'company-contacts',
		connectTimeout: 2000,
		// A connection without responses is closed, with what was sent over it: else it would stay in memory.
		socketTimeout: 2000,
		// Commands are not queued: when Redis returns, this process has long decided by itself.
		enableOfflineQueue: false,
		maxRetriesPerRequest: 0,
		retryStrategy: (attempt) => Math.min(attempt * 50, 500),
		// A primary that has become a replica may keep its connections open. The name leads to the new primary.
		reconnectOnError: ({ message }) => message.includes('READONLY'),
		scripts: { takeToken: { lua: script, numberOfKeys: 1 } },
	});
	// Each request receives its own error. Without a listener, a failed connection would end the process.
	redis.on('error', () => undefined);
	type Reply = [admitted: number, remaining: number, waitMs: number];
	const takeToken = (redis as unknown as { takeToken(key: string, ...args: number[]): Promise<Reply> }).takeToken.bind(
		redis,
	);
	return {
		async take(name) {
			const reply = takeToken(`company-contacts:bucket:${name}`, policy.perSecond, policy.burst);
			const [admitted, remaining, waitMs] = await failAfter(timeoutMs, reply);
			return { admitted: admitted === 1, remaining, waitMs };
		},
		close: () => redis.disconnect(),
	};
}

/**
 * The client's own timeout would blame Redis for a busy process: its timer fires before the process reads a response that
 * arrived long ago. So after the timeout, this first reads what has arrived.
 */
function failAfter<T>(timeoutMs: number, reply: Promise<T>): Promise<T> {
	return new Promise((resolve, reject) => {
		const timer = setTimeout(() => setImmediate(reject, new Error(`no response within ${timeoutMs} ms`)), timeoutMs);
		reply.then(resolve, reject).finally(() => clearTimeout(timer));
	});
}
