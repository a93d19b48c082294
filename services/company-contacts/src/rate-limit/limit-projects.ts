import { Problem } from '@contacts/common/http/problems.js';
import { type BucketPolicy, createBuckets, type Decision } from '@contacts/common/http/token-bucket.js';
import { countByLabels, gauge } from '@contacts/common/observability/metrics.js';
import rateLimit, { type FastifyRateLimitStore } from '@fastify/rate-limit';
import fp from 'fastify-plugin';
import type { Registry } from 'prom-client';
import { connectRedisBuckets } from './redis-token-bucket.js';

interface LimitProjectsOptions {
	policy: BucketPolicy;
	/** Redis, shared by all replicas. Without it, each process has its own buckets. */
	redisUrl: string | undefined;
	registry: Registry;
	/** Monotonic milliseconds. */
	clock: () => number;
}

/** Maximum number of buckets in a process: about 100 bytes each. */
const maxProjects = 100_000;

/** A request waits at most this long for Redis: a hundred times what Redis needs in the same data center. */
const redisTimeoutMs = 50;

/** The name of a bucket that no project has: the name of a project's bucket is its ID. */
const probeBucket = 'probe';

/** After a failure Redis is tested at most this often, beside the requests. */
const redisRetryIntervalMs = 200;

/**
 * Limits each project to its own token bucket, after authentication, in the scope that registers it. The library provides the
 * hook and the headers `RateLimit-Limit`, `-Remaining` and `-Reset`. It counts in fixed windows, so the buckets are our own
 * store. Without Redis a decision needs no promise, because a promise costs time in every request.
 */
export const limitProjects = fp<LimitProjectsOptions>(
	async (scope, { policy, redisUrl, registry, clock }) => {
		const { burst, perSecond } = policy;
		const count = countByLabels(registry, {
			name: 'rate_limit_decisions_total',
			help: 'Requests that reached the rate limiter.',
			labelNames: ['decision', 'bucket'],
		});
		for (const decision of ['admitted', 'refused']) count([decision, 'local'], 0);
		const local = createBuckets(policy, maxProjects, clock);
		const takeFromRedis = redisUrl === undefined ? undefined : useRedis(redisUrl);

		/** @returns undefined while Redis does not respond */
		function useRedis(url: string): (name: string) => Promise<Decision | undefined> {
			const buckets = connectRedisBuckets(url, policy, redisTimeoutMs);
			scope.addHook('onClose', async () => buckets.close());
			let isUp: boolean | undefined;
			let retryAt = 0;
			const ask = async (name: string) => {
				try {
					const decision = await buckets.take(name);
					if (isUp === false) scope.log.info('the rate limit is shared through Redis again');
					isUp = true;
					return decision;
				} catch (error) {
					if (isUp !== false) scope.log.warn({ err: error }, 'Redis does not respond: this process limits by itself');
					isUp = false;
					return undefined;
				}
			};
			const take = async (name: string) => {
				if (isUp !== false) return ask(name);
				// No request waits for a Redis that has failed. One that hangs executes what it received when it goes on, so a bucket that
				// no project has tests it.
				if (clock() >= retryAt) {
					retryAt = clock() + redisRetryIntervalMs;
					void ask(probeBucket);
				}
				return undefined;
			};
			gauge(
				registry,
				'rate_limit_redis_up',
				'1 while the buckets in Redis decide, 0 while those of this process do; only with REDIS_URL.',
				// A decision like that of a request: Redis may respond to a ping and still refuse to write.
				async () => Number((await take(probeBucket)) !== undefined),
			);
			return take;
		}

		class Store implements FastifyRateLimitStore {
			/** The library admits a request when `current` is at most `max`, and puts `ttl` (milliseconds) into its headers. */
			incr(key: string, callback: (error: Error | null, result?: { current: number; ttl: number }) => void): void {
				const respond = ({ admitted, remaining, waitMs }: Decision, bucket: 'local' | 'redis') => {
					count([admitted ? 'admitted' : 'refused', bucket]);
					callback(null, { current: admitted ? burst - remaining : burst + 1, ttl: waitMs });
				};
				if (takeFromRedis === undefined) respond(local.take(key), 'local');
				else {
					takeFromRedis(key).then((decision) => {
						if (decision === undefined) respond(local.take(key), 'local');
						else respond(decision, 'redis');
					}, callback);
				}
			}
			child(): FastifyRateLimitStore {
				return this;
			}
		}
		await scope.register(rateLimit, {
			max: burst,
			timeWindow: Math.ceil((burst / perSecond) * 1000),
			keyGenerator: (request) => String(request.project.id),
			store: Store,
			enableDraftSpec: true,
			errorResponseBuilder: () => new Problem('rate_limited'),
		});
	},
	{ name: 'limit-projects', fastify: '5.x', dependencies: ['authenticate'] },
);
