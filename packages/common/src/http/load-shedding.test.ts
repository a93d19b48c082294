import Fastify from 'fastify';
import { expect, onTestFinished, test, vi } from 'vitest';
import { loadShedding } from './load-shedding.js';

/** A server whose event loop was blocked between two checks. */
async function startLagging() {
	vi.useFakeTimers({ toFake: ['setInterval'] });
	onTestFinished(() => void vi.useRealTimers());
	const server = Fastify();
	onTestFinished(() => server.close());
	await server.register(async (scope) => {
		await scope.register(loadShedding);
		scope.get('/', (_request, reply) => reply.send('served'));
	});
	await server.ready();
	vi.advanceTimersByTime(500);
	return server;
}

test('after a pause of the process the first fifty requests are served, and those beyond are rejected; while it lags, fifty in each half second', async () => {
	const server = await startLagging();
	for (let check = 0; check < 2; check++) {
		const statuses = [];
		for (let n = 0; n < 110; n++) statuses.push((await server.inject('/')).statusCode);
		expect(statuses).toEqual([...Array<number>(50).fill(200), ...Array<number>(60).fill(503)]);
		// Without a sample of the event loop, the next check finds it lagging too.
		vi.advanceTimersByTime(500);
	}
});
