import { Problem } from '@contacts/common/http/problems.js';
import { normalizeIP } from '@fastify/rate-limit';
import type { FastifyRequest } from 'fastify';
import { Counter, type Registry } from 'prom-client';
import { type BucketPolicy, createBuckets } from './token-bucket.js';

/** The most client addresses that are kept in mind. */
const capacity = 50_000;

/**
 * Limits failed authentications per client address (IPv6: per /64, which is what one customer is given), so that keys can't
 * be guessed at speed. Only failures are counted and only failures are refused: a client with a valid key is served whatever
 * its neighbours behind the same address do, and no project's bucket is touched. Each process counts for itself.
 *
 * @returns what to call for a failed request; it throws Problem `rate_limited` when there were too many
 */
export function limitFailures(
	policy: BucketPolicy,
	registry: Registry,
	clock: () => number,
): (request: FastifyRequest) => void {
	const buckets = createBuckets(policy, capacity, clock);
	const failures = new Counter({
		name: 'authentication_failures_total',
		help: 'Requests without valid credentials, by whether their address had too many of them.',
		labelNames: ['limited'],
		registers: [registry],
	});
	for (const limited of ['true', 'false']) failures.inc({ limited }, 0);
	return (request) => {
		const { admitted, wait } = buckets.take(normalizeIP(request.ip));
		failures.inc({ limited: String(!admitted) });
		if (!admitted) throw new Problem('rate_limited', { headers: { 'retry-after': String(Math.ceil(wait / 1000)) } });
	};
}
