import { normalizeIP } from '@fastify/rate-limit';
import type { FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import { counter } from '../observability/metrics.js';
import { Problem } from './problems.js';
import { type BucketPolicy, createBuckets } from './token-bucket.js';

/** Maximum number of client addresses that are counted at once: about 5 MB. */
const maxAddresses = 50_000;

/**
 * Limits failed authentications per client address, so that nobody can guess keys quickly. IPv6 addresses count per /64, the
 * smallest block of one customer. Only failures count, and only failures are refused. A valid key always works, whatever other
 * clients of the same address do, and no project loses a token. Each process counts for itself.
 *
 * @returns a function to call for each failure; it throws Problem `rate_limited` after too many
 */
export function limitFailures(
	policy: BucketPolicy,
	registry: Registry,
	clock: () => number,
): (request: FastifyRequest) => void {
	const buckets = createBuckets(policy, maxAddresses, clock);
	const count = counter(
		registry,
		'authentication_failures_total',
		'Requests without valid credentials, and refused events of the CRM, by whether their address had too many of them.',
		'limited',
		['true', 'false'],
	);
	return (request) => {
		// A client that has reset its connection has no address any more.
		const { admitted, waitMs } = buckets.take(normalizeIP(request.ip ?? ''));
		count(admitted ? 'false' : 'true');
		if (!admitted) throw new Problem('rate_limited', { headers: { 'retry-after': String(Math.ceil(waitMs / 1000)) } });
	};
}
