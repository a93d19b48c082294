import { Problem } from '@contacts/common/http/problems.js';
import { normalizeIP } from '@fastify/rate-limit';
import type { FastifyRequest } from 'fastify';
import { Counter, type Registry } from 'prom-client';
import { type BucketPolicy, createBuckets } from './token-bucket.js';

/** At most this many client addresses are counted at once: some 5 MB. */
const maxAddresses = 50_000;

/**
 * Limits failed authentications per client address (IPv6: per /64, the smallest block that one customer has), so that nobody
 * can guess keys at speed. Only failures count and only failures are refused: a valid key works whatever others behind the
 * same address do, and no project loses a token. Each process counts for itself.
 *
 * @returns call it for each failure; it throws Problem `rate_limited` when there were too many
 */
export function limitFailures(
	policy: BucketPolicy,
	registry: Registry,
	clock: () => number,
): (request: FastifyRequest) => void {
	const buckets = createBuckets(policy, maxAddresses, clock);
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
