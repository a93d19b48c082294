import fp from 'fastify-plugin';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { KeyRing } from './auth/key-ring.js';
import type { Database } from './database/database.js';

export interface MetricsOptions {
	registry: Registry;
	database: Database;
	/** Of a service that authenticates. */
	keyRing?: KeyRing;
}

/** A registry with the measures of the process itself. */
export function createRegistry(): Registry {
	const registry = new Registry();
	collectDefaultMetrics({ register: registry });
	return registry;
}

/** Counts and times every request, and answers `GET /metrics` in the Prometheus text format. Register it on the root. */
export const metrics = fp<MetricsOptions>(async (server, { registry, database, keyRing }) => {
	const registers = [registry];
	const labelNames = ['method', 'route', 'status'] as const;
	const requests = new Counter({ name: 'http_requests_total', help: 'Requests answered.', labelNames, registers });
	const durations = new Histogram({
		name: 'http_request_duration_seconds',
		help: 'Time from the arrival of a request to the end of its answer.',
		labelNames: ['method', 'route'],
		buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
		registers,
	});
	new Gauge({
		name: 'database_waiting_statements',
		help: 'Statements under way or waiting for a connection.',
		registers,
		collect() {
			this.set(database.waiting);
		},
	});
	if (keyRing !== undefined) measureKeyRing(keyRing, registry);

	server.addHook('onResponse', async (request, reply) => {
		// The route's pattern, never the URL: the number of series stays bounded, and no key gets in.
		const route = request.routeOptions.url ?? 'none';
		const method = route === 'none' ? 'any' : request.method;
		requests.inc({ method, route, status: reply.statusCode });
		durations.observe({ method, route }, reply.elapsedTime / 1000);
	});
	server.get('/metrics', async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));
});

function measureKeyRing(keyRing: KeyRing, registry: Registry): void {
	new Gauge({
		name: 'key_ring_age_seconds',
		help: 'Time since the keys in memory were last known to be current.',
		registers: [registry],
		collect() {
			this.set((keyRing.age() ?? Number.NaN) / 1000);
		},
	});
}
