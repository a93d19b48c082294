import { Problem } from '@contacts/common/http/problems.js';
import rateLimit, { type FastifyRateLimitStore, type FastifyRateLimitStoreCtor } from '@fastify/rate-limit';
import fp from 'fastify-plugin';
import type { Limiter } from './limiter.js';

/**
 * Limits each project to a token bucket of its own, in the scope that registers it, after authentication. The library does
 * the hook and the headers, `RateLimit-Limit`, `-Remaining` and `-Reset`; it counts in fixed windows, so the buckets are our store.
 */
export const limitProjects = fp<{ limiter: Limiter }>(async (scope, { limiter }) => {
	const { burst, perSecond } = limiter.policy;
	await scope.register(rateLimit, {
		max: burst,
		timeWindow: Math.ceil((burst / perSecond) * 1000),
		keyGenerator: (request) => String(request.project.id),
		store: storeOf(limiter),
		enableDraftSpec: true,
		errorResponseBuilder: () => new Problem('rate_limited'),
	});
});

/** The library admits a request when `current` is at most `max`, and takes `ttl` (milliseconds) for its headers. */
function storeOf(limiter: Limiter): FastifyRateLimitStoreCtor {
	const { burst } = limiter.policy;
	return class Store implements FastifyRateLimitStore {
		async incr(
			key: string,
			callback: (error: Error | null, result?: { current: number; ttl: number }) => void,
		): Promise<void> {
			const { admitted, remaining, wait } = await limiter.take(key);
			callback(null, { current: admitted ? burst - remaining : burst + 1, ttl: wait });
		}
		child(): FastifyRateLimitStore {
			return this;
		}
	};
}
