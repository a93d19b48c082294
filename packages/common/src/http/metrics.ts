import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';
import { Gauge, Histogram, type Registry } from 'prom-client';
import type { KeyRing } from '../auth/key-ring.js';
import type { Project } from '../auth/key-ring.sql.js';
import type { Database } from '../database/database.js';
import { failureReasons } from '../database/errors.js';
import type { StatePoll } from '../database/state-poll.js';
import { countByLabels, counter, gauge } from '../observability/metrics.js';
import { probeRoute } from './request-log.js';

interface MetricsOptions {
	registry: Registry;
	database: Database;
	poll: StatePoll;
	/** The key ring of a service that authenticates. */
	keyRing?: KeyRing;
}

/** Of durations, in seconds. */
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/**
 * Counts every request, measures its duration, and serves `GET /metrics` in the Prometheus text format. Register it on the
 * root, before all routes.
 */
export const metrics = fp<MetricsOptions>(
	async (server, { registry, database, poll, keyRing }) => {
		measureDatabase(database, poll, registry);
		const countOfRoute = measureRoutes(server, registry);
		const countOfProject = keyRing && measureKeys(keyRing, poll, registry);
		server.onResponseEnd((request, reply) => {
			countOfRoute(request.routeOptions.url, request.method, reply.statusCode, reply.elapsedTime / 1000);
			// Its type is never undefined, but it is set only after authentication.
			const project = request.project as Project | undefined;
			if (project !== undefined) countOfProject?.(project.code, reply.statusCode);
		});
		server.get('/metrics', probeRoute, async (_request, reply) =>
			reply.type(registry.contentType).send(await registry.metrics()),
		);
	},
	{ name: 'metrics', fastify: '5.x' },
);

/** @returns a function to call for each response */
function measureRoutes(server: FastifyInstance, registry: Registry) {
	const registers = [registry];
	const count = countByLabels(registry, {
		name: 'http_requests_total',
		help: 'Requests with a response.',
		labelNames: ['method', 'route', 'status'],
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
		for (const method of [methods].flat()) for (const status of [500, 503]) count([method, route, status], 0);
	};
	server.addHook('onRoute', ({ method, url }) => begin(method, url));
	begin('any', 'none');
	// The route's pattern, never the URL: the number of series stays bounded, and no key gets in. Labels are written out, because
	// an object that is spread into another one is slow to read for the library.
	return (url: string | undefined, sent: string, status: number, seconds: number) => {
		const [method, route] = url === undefined ? ['any', 'none'] : [sent, url];
		count([method, route, status]);
		durations.observe({ method, route }, seconds);
	};
}

/** Statuses that clients usually get. Their counters begin at 0, so that `increase()` sees the first burst of a project too. */
const usualStatuses = [200, 304, 400, 429, 500, 503];

/**
 * How current the keys are, when the next key of each project expires, and the requests of each project.
 *
 * @returns a function to call for each response to a project
 */
function measureKeys(keyRing: KeyRing, poll: StatePoll, registry: Registry) {
	const registers = [registry];
	/** Milliseconds since the epoch, by project. A gauge for each request would cost more. */
	const lastRequests = new Map<string, number>();
	gauge(
		registry,
		'key_ring_refreshed_timestamp_seconds',
		'When the keys in memory were last known to be current, as a Unix time; 0 before the first time.',
		() => (poll.state?.foundAt ?? 0) / 1000,
	);
	const count = countByLabels(registry, {
		name: 'project_requests_total',
		help: 'Requests with valid credentials that got a response, by project: those with the status 429 were over its limit.',
		labelNames: ['project', 'status'],
		known: () => keyRing.liveKeys().flatMap(({ code }) => usualStatuses.map((status) => [code, status])),
	});
	new Gauge({
		name: 'project_last_request_timestamp_seconds',
		help: 'When a project last sent a request to this process, as a Unix time.',
		labelNames: ['project'],
		registers,
		collect() {
			for (const [project, time] of lastRequests) this.set({ project }, time / 1000);
		},
	});
	new Gauge({
		name: 'api_key_expiry_timestamp_seconds',
		help: 'When the next live key of a project expires, as a Unix time.',
		labelNames: ['project'],
		registers,
		collect() {
			this.reset();
			const expiring = keyRing.liveKeys().filter(({ expiresAt }) => Number.isFinite(expiresAt));
			// The soonest comes last, and stays.
			for (const { code, expiresAt } of expiring.sort((one, other) => other.expiresAt - one.expiresAt))
				this.set({ project: code }, expiresAt / 1000);
		},
	});
	return (project: string, status: number) => {
		count([project, status]);
		lastRequests.set(project, Date.now());
	};
}

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
	add('database_up', '1 if the database responded within the last second, else 0.', () =>
		poll.confirm(maxUpMs).then(
			() => 1,
			() => 0,
		),
	);
}

/** How long a collection of metrics waits for a database that did not respond within the last second. */
const maxUpMs = 250;
