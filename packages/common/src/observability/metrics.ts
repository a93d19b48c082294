import fp from 'fastify-plugin';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { KeyRing } from '../auth/authenticate.js';
import type { Database } from '../database/database.js';
import { failureReasons } from '../database/errors.js';
import type { StatePoll } from '../database/state-poll.js';
import { probeRoute } from '../http/health.js';
import { version } from '../process/version.js';
import { withDeadline } from '../process/with-deadline.js';
import { measureProjects } from './project-metrics.js';

interface MetricsOptions {
	registry: Registry;
	database: Database;
	poll: StatePoll;
	/** The key ring of a service that authenticates. */
	keyRing?: KeyRing;
}

/** Of durations, in seconds. */
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Gauges of the library with names of counters, against Prometheus's rules. `nodejs_active_resources` has the same values. */
const misnamed = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** A registry with the metrics of the process itself. */
export function createRegistry(): Registry {
	const registry = new Registry();
	collectDefaultMetrics({ register: registry });
	for (const name of misnamed) registry.removeSingleMetric(name);
	new Gauge({
		name: 'build_info',
		help: 'Always 1; its label is the release that runs.',
		labelNames: ['version'],
		registers: [registry],
	}).set({ version }, 1);
	return registry;
}

/** A gauge whose value is read whenever the metrics are collected. */
export function gauge(registry: Registry, name: string, help: string, read: () => number | Promise<number>): void {
	new Gauge({
		name,
		help,
		registers: [registry],
		async collect() {
			this.set(await read());
		},
	});
}

/** A counter by the values of one label. All of them begin at 0, so that `increase()` sees the first event too. */
export function counter<Value extends string>(
	registry: Registry,
	name: string,
	help: string,
	label: string,
	values: readonly Value[],
): (value: Value, by?: number) => void {
	const made = new Counter({ name, help, labelNames: [label], registers: [registry] });
	for (const value of values) made.inc({ [label]: value }, 0);
	return (value, by) => made.inc({ [label]: value }, by);
}

/**
 * Counts every request, measures its duration, and serves `GET /metrics` in the Prometheus text format. Register it on the
 * root.
 */
export const metrics = fp<MetricsOptions>(async (server, { registry, database, poll, keyRing }) => {
	const registers = [registry];
	const labelNames = ['method', 'route', 'status'] as const;
	const requests = new Counter({
		name: 'http_requests_total',
		help: 'Requests with a response.',
		labelNames,
		registers,
	});
	const durations = new Histogram({
		name: 'http_request_duration_seconds',
		help: 'Time from the arrival of a request to the end of its response.',
		labelNames: ['method', 'route'],
		buckets,
		registers,
	});
	// Failures begin at 0, so that `increase()` sees the first one too.
	const begin = (methods: string | string[], route: string) => {
		for (const method of [methods].flat()) for (const status of [500, 503]) requests.inc({ method, route, status }, 0);
	};
	server.addHook('onRoute', ({ method, url }) => begin(method, url));
	begin('any', 'none');
	measureDatabase(database, poll, registry);
	if (keyRing !== undefined) {
		gauge(
			registry,
			'key_ring_refreshed_timestamp_seconds',
			'When the keys in memory were last known to be current, as a Unix time; 0 before the first time.',
			() => (keyRing.refreshedAt ?? 0) / 1000,
		);
		measureProjects(server, registry, keyRing);
	}

	server.addHook('onResponse', (request, reply, done) => {
		// The route's pattern, never the URL: the number of series stays bounded, and no key gets in.
		const route = request.routeOptions.url ?? 'none';
		const method = route === 'none' ? 'any' : request.method;
		requests.inc({ method, route, status: reply.statusCode });
		durations.observe({ method, route }, reply.elapsedTime / 1000);
		done();
	});
	server.get('/metrics', probeRoute, async (_request, reply) =>
		reply.type(registry.contentType).send(await registry.metrics()),
	);
});

/** The duration of statements, the use of connections, and whether the database responds when the metrics are collected. */
export function measureDatabase(database: Database, poll: StatePoll, registry: Registry): void {
	const registers = [registry];
	const durations = new Histogram({
		name: 'database_statement_duration_seconds',
		help: 'Time from asking for a statement to its response, including the wait for a connection.',
		buckets,
		registers,
	});
	const waits = new Histogram({
		name: 'database_connection_wait_seconds',
		help: 'Time that a statement waited for a connection.',
		buckets,
		registers,
	});
	const onFailure = counter(
		registry,
		'database_errors_total',
		'Requests for the database that failed: busy (too many waited), deadline, connection, or statement (the server refused it).',
		'reason',
		failureReasons,
	);
	database.observe({
		onStatement(waited, took) {
			waits.observe(waited / 1000);
			durations.observe(took / 1000);
		},
		onFailure,
	});

	const { connections } = database;
	const add = gauge.bind(undefined, registry);
	add('database_connections_limit', 'Maximum number of connections for statements.', () => connections.limit);
	add('database_connections_in_use', 'Connections with a statement on them.', () => connections.inUse);
	add('database_statements_waiting', 'Statements that wait for a connection.', () => connections.waiting);
	add('database_cursors', 'Open cursors for long results, on separate connections.', () => database.reading);
	const isUp = () => {
		const now = performance.now();
		return poll.confirm(now, now + maxUpMs).then(
			() => 1,
			() => 0,
		);
	};
	add('database_up', '1 if the database responded within the last second, else 0.', lastKnown(isUp, 1));
}

/** The maximum time for which `database_up` waits for a response. Until then it has its last value. */
const maxUpMs = 4000;

/** The timeout for one metric. A collection of metrics must finish within seconds. */
const maxWaitMs = 250;

/**
 * Reads a value at each call. If that takes too long, returns the last known value.
 *
 * @param read must not reject; it is not called again while it runs
 */
export function lastKnown<Value>(read: () => Promise<Value>, initial: Value): () => Promise<Value> {
	let known = initial;
	let reading: Promise<void> | undefined;
	return async () => {
		reading ??= read().then((value) => {
			known = value;
			reading = undefined;
		});
		await withDeadline(reading, maxWaitMs);
		return known;
	};
}
