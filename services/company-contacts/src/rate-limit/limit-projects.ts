import { Problem } from '@contacts/common/http/problems.js';
import rateLimit, { type FastifyRateLimitStore, type FastifyRateLimitStoreCtor } from '@fastify/rate-limit';
import fp from 'fastify-plugin';
import type { Limiter } from './limiter.js';

/**
 * Limits each project to a token bucket of its own, in the scope that registers it, after authentication. The library does
 * the hook and the headers; what it has of its own to count with is a fixed window, so the buckets are our store.
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

	// The library has the header fields of an early draft and, under another name, those that came before any draft. The
	// current draft has two structured fields: draft-ietf-httpapi-ratelimit-headers, section 3.
	const policy = `"default";q=${burst};w=${Math.ceil(burst / perSecond)}`;
	scope.addHook('onSend', (_request, reply, _payload, done) => {
		const remaining = reply.getHeader('ratelimit-remaining');
		if (remaining !== undefined) {
			const reset = reply.getHeader('ratelimit-reset');
			reply.headers({
				'ratelimit-policy': policy,
				ratelimit: `"default";r=${remaining};t=${reset}`,
				'x-ratelimit-limit': burst,
				'x-ratelimit-remaining': remaining,
				'x-ratelimit-reset': reset,
			});
		}
		done();
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
