import type { FastifyBaseLogger } from 'fastify';
import { Counter, Gauge, type Registry } from 'prom-client';
import { connectSharedBuckets, type SharedBuckets } from './shared-buckets.js';
import { type BucketPolicy, createBuckets, type Decision } from './token-bucket.js';

/** Decides on requests by name, of a project for instance. It never fails and never makes a request wait long. */
export interface Limiter {
	readonly policy: BucketPolicy;
	take(name: string): Promise<Decision> | Decision;
	close(): void;
}

export interface LimiterOptions {
	policy: BucketPolicy;
	/** Redis, shared by all replicas; without it each process has buckets of its own. */
	redisUrl: string | undefined;
	logger: FastifyBaseLogger;
	registry: Registry;
	/** Milliseconds that never go back. */
	clock: () => number;
}

/** The most projects whose buckets a process keeps. */
const capacity = 100_000;

/** Milliseconds within which Redis must have answered. */
const deadline = 50;

/** Milliseconds for which Redis is left alone after it has failed: one slow request at a time finds out, not all of them. */
const pause = 200;

export function createLimiter({ policy, redisUrl, logger, registry, clock }: LimiterOptions): Limiter {
	const own = createBuckets(policy, capacity, clock);
	const shared = redisUrl === undefined ? undefined : connectSharedBuckets(redisUrl, policy, deadline);
	const registers = [registry];
	const decisions = new Counter({
		name: 'rate_limit_decisions_total',
		help: 'Requests that reached the rate limiter.',
		labelNames: ['decision', 'bucket'],
		registers,
	});
	for (const decision of ['admitted', 'refused']) decisions.inc({ decision, bucket: 'own' }, 0);
	function count(decision: Decision, bucket: 'own' | 'shared'): Decision {
		decisions.inc({ decision: decision.admitted ? 'admitted' : 'refused', bucket });
		return decision;
	}

	if (shared === undefined) {
		return { policy, take: (name) => count(own.take(name), 'own'), close: () => undefined };
	}
	const up = new Gauge({
		name: 'rate_limit_shared',
		help: '1 while the buckets in Redis decide, 0 while those of this process do; only where there is a Redis.',
		registers,
	});
	const state = createState(logger, up);
	return {
		policy,
		async take(name) {
			const decision = clock() < state.resumeAt ? undefined : await askShared(shared, name);
			return decision === undefined ? count(own.take(name), 'own') : count(decision, 'shared');
		},
		close: () => shared.close(),
	};

	async function askShared(buckets: SharedBuckets, name: string): Promise<Decision | undefined> {
		try {
			const decision = await buckets.take(name);
			state.works();
			return decision;
		} catch (error) {
			state.fails(error, clock() + pause);
			return undefined;
		}
	}
}

/** Whether Redis answers: said once in the log for each change. */
function createState(logger: FastifyBaseLogger, up: Gauge) {
	let shared: boolean | undefined;
	const state = {
		resumeAt: 0,
		works() {
			if (shared === false) logger.info('the rate limit is shared through Redis again');
			if (shared !== true) up.set(1);
			shared = true;
		},
		fails(error: unknown, resumeAt: number) {
			if (shared !== false) logger.warn({ err: error }, 'Redis does not answer: this process limits by itself');
			if (shared !== false) up.set(0);
			shared = false;
			state.resumeAt = resumeAt;
		},
	};
	return state;
}
