import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/**
 * Calls a listener once for each response that has begun, when it has been sent or when its connection is closed. Fastify's hook
 * `onResponse` depends on the event `finish`, which Node.js 24 does not emit for a connection that the client has reset.
 */
export function onResponseEnd(
	server: FastifyInstance,
	listener: (request: FastifyRequest, reply: FastifyReply) => void,
): void {
	server.addHook('onRequest', (request, reply, done) => {
		reply.raw.once('close', () => {
			if (reply.raw.headersSent) listener(request, reply);
		});
		done();
	});
}
