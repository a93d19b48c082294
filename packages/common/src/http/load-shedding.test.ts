import Fastify from 'fastify';
import { expect, onTestFinished, test, vi } from 'vitest';
import { loadShedding } from './load-shedding.js';

/** A server whose event loop was blocked between two checks. There are no further checks. */
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

test('after a pause of the process the first fifty requests are served, and those beyond are rejected', async () => {
	const server = await startLagging();
	const statuses = [];
	for (let n = 0; n < 60; n++) statuses.push((await server.inject('/')).statusCode);
	expect(statuses).toEqual([...Array<number>(50).fill(200), ...Array<number>(10).fill(503)]);
});
