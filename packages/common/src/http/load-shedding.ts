import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Database } from '../database/database.js';
import { Problem } from './problems.js';

interface LoadSheddingOptions {
	/** The database of a scope in which every request needs it. */
	database?: Pick<Database, 'isFull'>;
}

/** The maximum event loop delay, and the interval between two checks. With a shorter time, a single pause could exceed it. */
const maxDelayMs = 500;

/** The delay is sampled this often, and each sample has this time in it. */
const resolutionMs = 10;

/**
 * Requests that are admitted between two checks while the loop lags: a single pause of the process or its machine delays it too,
 * and must not reject the few requests that waited for its end.
 */
const alwaysAdmitted = 50;

/**
 * Rejects requests that would wait too long with 503 at once, in the scope that registers it, before any other work.
 * `database/admission.ts` decides whether the database has capacity. It is checked here first, because a rejection is
 * cheapest here. CPU overload shows as event loop delay under many requests. CPU utilisation is no measure: a process that
 * is always busy and responds in time is not overloaded.
 */
export const loadShedding = fp<LoadSheddingOptions>(
	async (scope, { database }) => {
		const delays = monitorEventLoopDelay({ resolution: resolutionMs });
		delays.enable();
		let isDelayed = false;
		/** Requests that were admitted since the last check. */
		let admitted = 0;
		const timer = setInterval(() => {
			// Without any sample it is not a number.
			isDelayed = !(delays.mean / 1e6 - resolutionMs <= maxDelayMs);
			delays.reset();
			admitted = 0;
		}, maxDelayMs).unref();
		scope.addHook('onClose', async () => {
			clearInterval(timer);
			delays.disable();
		});

		const shed = (_request: FastifyRequest, _reply: unknown, done: () => void) => {
			if (database?.isFull) throw new Problem('overloaded');
			done();
		};
		scope.addHook('onRequest', (request, reply, done) => {
			if (isDelayed && admitted >= alwaysAdmitted) throw new Problem('overloaded');
			admitted++;
			shed(request, reply, done);
		});
		// Checks again after the body was received, which may take long.
		if (database !== undefined) scope.addHook('preHandler', shed);
	},
	{ name: 'load-shedding', fastify: '5.x' },
);
