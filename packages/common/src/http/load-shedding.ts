import underPressure from '@fastify/under-pressure';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Database } from '../database/database.js';
import { Problem } from './problems.js';

interface LoadSheddingOptions {
	/** A monotonic clock in milliseconds. */
	clock: () => number;
	/** The database of a scope in which every request needs it. */
	database?: Pick<Database, 'isFull'>;
}

/** The maximum event loop delay, and the interval between two checks. With a shorter time, a single pause could exceed it. */
const maxEventLoopDelayMs = 500;

/**
 * A single pause of the process or its machine also delays the loop. Up to this many requests within the interval can wait
 * for it.
 */
const alwaysAdmitted = 50;

/**
 * Rejects requests that would wait too long with 503 at once, in the scope that registers it, before any other work.
 * `database/admission.ts` decides whether the database has capacity. It is checked here first, because a rejection is
 * cheapest here. CPU overload shows as event loop delay under many requests. CPU utilisation is no measure: a process that
 * is always busy and responds in time is not overloaded.
 */
export const loadShedding = fp<LoadSheddingOptions>(
	async (scope, { clock, database }) => {
		/** When each of the last requests arrived, one more than are always admitted: a ring. */
		const arrivals = new Array<number>(alwaysAdmitted + 1).fill(Number.NEGATIVE_INFINITY);
		let oldest = 0;
		const shed = (_request: FastifyRequest, _reply: FastifyReply, done: () => void) => {
			if (database?.isFull) throw new Problem('overloaded');
			done();
		};
		scope.addHook('onRequest', (request, reply, done) => {
			// Runs before the event loop delay is checked.
			arrivals[oldest] = clock();
			oldest = (oldest + 1) % arrivals.length;
			shed(request, reply, done);
		});
		await scope.register(underPressure, {
			maxEventLoopDelay: maxEventLoopDelayMs,
			sampleInterval: maxEventLoopDelayMs,
			pressureHandler: () => {
				if (clock() - Number(arrivals[oldest]) < maxEventLoopDelayMs) throw new Problem('overloaded');
			},
		});
		// Checks again after the body was received, which may take long.
		if (database !== undefined) scope.addHook('preHandler', shed);
	},
	{ name: 'load-shedding', fastify: '5.x' },
);
