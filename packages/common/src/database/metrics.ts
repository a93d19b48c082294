import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { lastKnown } from '../observability/last-known.js';
import type { Database } from './database.js';
import { failureReasons } from './errors.js';

const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** The duration of statements, the use of connections, and whether the database responds when the metrics are collected. */
export function measureDatabase(database: Database, registry: Registry): void {
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
	const errors = new Counter({
		name: 'database_errors_total',
		help: 'Requests for the database that failed: busy (too many waited), deadline, connection, or statement (the server refused it).',
		labelNames: ['reason'],
		registers,
	});
	for (const reason of failureReasons) errors.inc({ reason }, 0);
	database.observe({
		onStatement(waited, took) {
			waits.observe(waited / 1000);
			durations.observe(took / 1000);
		},
		onFailure: (reason) => errors.inc({ reason }),
	});

	const gauge = (name: string, help: string, read: () => number | Promise<number>) =>
		new Gauge({
			name,
			help,
			registers,
			async collect() {
				this.set(await read());
			},
		});
	const { connections } = database;
	gauge('database_connections_limit', 'Maximum number of connections for statements.', () => connections.limit);
	gauge('database_connections_in_use', 'Connections with a statement on them.', () => connections.inUse);
	gauge('database_statements_waiting', 'Statements that wait for a connection.', () => connections.waiting);
	gauge('database_cursors', 'Open cursors for long results, on separate connections.', () => database.reading);
	const isUp = () =>
		database
			.queryReserved((sql) => sql`select 1`)
			.then(
				() => 1,
				() => 0,
			);
	gauge('database_up', '1 when the database responded to the last check, else 0.', lastKnown(isUp, 1));
}
