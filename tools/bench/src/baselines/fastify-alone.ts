/**
 * The least that a service on Fastify does for the same response: the bytes and headers that the service sent for the same URL, an
 * ID for each request, and the hash of its key. It has no log, limit and metrics.
 */
import { createHash, randomUUID } from 'node:crypto';
import fastify from 'fastify';
import { recordedResponse } from './recorded.js';

const { PORT } = process.env;

const server = fastify({ genReqId: () => randomUUID() });
server.get('/health/ready', async () => ({ status: 'ready' }));
server.get<{ Querystring: { api_key?: string } }>('/api/*', async (request, reply) => {
	const { status, headers, body } = await recordedResponse(request.raw.url ?? '');
	reply.code(status);
	for (let index = 0; index < headers.length; index += 2) reply.header(headers[index] ?? '', headers[index + 1]);
	reply.header('x-request-id', request.id);
	// The service compares it with those of the keys that it knows.
	createHash('sha256')
		.update(request.query.api_key ?? '')
		.digest('hex');
	return reply.send(body);
});
await server.listen({ host: '127.0.0.1', port: Number(PORT) });

process.once('disconnect', () => process.exit(0));
