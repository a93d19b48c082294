import underPressure from '@fastify/under-pressure';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { RecentCount } from '../database/admission.js';
import type { Database } from '../database/database.js';
import { Problem } from './problems.js';

interface LoadSheddingOptions {
	/** Milliseconds that never go back. */
	clock: () => number;
	/** Of a scope in which every request needs the database. */
	database?: Pick<Database, 'isFull'>;
}

/** By which the event loop may lag, and between two looks at it: of a shorter time, one pause may be all. */
const maxEventLoopDelayMs = 500;

/** A single pause of the process or of its machine delays the loop too: so few requests within that time can wait for it. */
const alwaysAdmitted = 50;

/**
 * Refuses requests that would wait too long with 503 at once, in the scope that registers it, before anything is done for
 * them. Whether the database has room is decided in `database/admission.ts`, and asked here first because a refusal costs
 * least here. A busy processor shows in the event loop's delay while many requests come. Its utilisation is no measure: a
 * process that is busy all the time and responds in time is merely well used.
 */
export const loadShedding = fp<LoadSheddingOptions>(async (scope, { clock, database }) => {
	const received = new RecentCount(maxEventLoopDelayMs);
	const shed = (_request: FastifyRequest, _reply: FastifyReply, done: () => void) => {
		if (database?.isFull) throw new Problem('overloaded');
		done();
	};
	scope.addHook('onRequest', (request, reply, done) => {
		// Before the event loop's delay is looked at.
		received.add(clock());
		shed(request, reply, done);
	});
	await scope.register(underPressure, {
		maxEventLoopDelay: maxEventLoopDelayMs,
		sampleInterval: maxEventLoopDelayMs,
		pressureHandler: () => {
			if (received.count(clock()) > alwaysAdmitted) throw new Problem('overloaded');
		},
	});
	// Again when the body has come, which may take its time.
	if (database !== undefined) scope.addHook('preHandler', shed);
});
