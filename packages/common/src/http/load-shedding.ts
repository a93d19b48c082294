import underPressure from '@fastify/under-pressure';
import fp from 'fastify-plugin';
import { Problem } from './problems.js';

export interface LoadSheddingOptions {
	/** Milliseconds that never go back. */
	clock: () => number;
}

/** So many requests may be under way whatever else is: a pause of the database is waited through. */
const alwaysTaken = 50;

/** Never are more under way: each holds memory. */
const mostTaken = 1000;

/** Milliseconds without an answer after which requests count as queueing. */
const patience = 250;

/** Milliseconds that a request waits at the most for those before it, by how many were answered in the last so many. */
const longestQueue = 500;

/** Milliseconds by which the event loop may lag, and between two looks at it: of a shorter time, one pause may be all. */
const eventLoop = { maxEventLoopDelay: 500, sampleInterval: 500 };

/**
 * Refuses requests that would wait too long with 503 at once, in the scope that registers it, before anything is done for
 * them. In a queue that grows, everybody waits until nobody is served in time; who is refused knows it and comes back.
 *
 * The measure is the requests that wait for their answer to be made, not connections or answers on their way: a client that
 * sends or reads slowly takes nobody's place. Where they have waited for longer than a moment, only as many may wait as were
 * answered within the last half of a second, so that a new one waits about as long. A busy processor shows in the event loop's
 * delay while many requests come. Its utilisation is no measure: a process that is busy all the time and answers in time is merely well used.
 */
export const loadShedding = fp<LoadSheddingOptions>(async (scope, { clock }) => {
	/** When each was taken, in the order in which they were. */
	const underWay = new Map<string, number>();
	const received = countLately(clock);
	const answered = countLately(clock);
	/** How long the request that was answered last had waited. */
	let lastWait = 0;

	function isFull(): boolean {
		if (underWay.size < alwaysTaken) return false;
		if (underWay.size >= mostTaken) return true;
		const lately = answered.count();
		const [oldest = 0] = underWay.values();
		// Of long ago, a wait tells nothing.
		const wait = Math.max(clock() - oldest, lately > 0 ? lastWait : 0);
		return wait > patience && underWay.size > lately;
	}

	// Before the event loop's delay is looked at.
	scope.addHook('onRequest', (_request, _reply, done) => {
		received.add();
		done();
	});
	await scope.register(underPressure, {
		...eventLoop,
		pressureHandler: () => {
			// A single pause of the process or of its machine delays the loop too: few requests can wait for it.
			if (received.count() > alwaysTaken) throw new Problem('overloaded');
		},
	});
	scope.addHook('onRequest', (_request, _reply, done) => {
		if (isFull()) throw new Problem('overloaded');
		done();
	});
	// Not before the body has come: a client that sends slowly is not work that waits.
	scope.addHook('preHandler', (request, _reply, done) => {
		if (isFull()) throw new Problem('overloaded');
		underWay.set(request.id, clock());
		done();
	});
	scope.addHook('onSend', (request, _reply, _payload, done) => {
		const taken = underWay.get(request.id);
		if (taken === undefined) return done();
		underWay.delete(request.id);
		answered.add();
		lastWait = clock() - taken;
		done();
	});
});

const slices = 4;

/** Counts what happened within the last `longestQueue` milliseconds, to a quarter of them. */
function countLately(clock: () => number) {
	const counts = new Array<number>(slices).fill(0);
	let current = 0;

	function turn(): number {
		const now = Math.floor((clock() * slices) / longestQueue);
		for (let passed = Math.min(now - current, slices); passed > 0; passed--) counts[(now - passed + 1) % slices] = 0;
		current = now;
		return now % slices;
	}

	return {
		add(): void {
			const slice = turn();
			counts[slice] = (counts[slice] ?? 0) + 1;
		},
		count(): number {
			turn();
			return counts.reduce((sum, count) => sum + count, 0);
		},
	};
}
