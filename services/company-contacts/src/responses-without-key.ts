import { sendProblem, toProblem } from '@contacts/common/http/problems.js';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** The named locations of gateway/default.conf.template that respond in place of this service, by status. */
const locations: Record<number, string> = {
	401: '@unauthorized',
	429: '@too_many_connections',
	503: '@unavailable',
};

/**
 * An error handler that leaves the response to a request without a valid key to the gateway, which then closes the connection: whoever
 * has no key can leave nothing unread there that would hold a place of others. Without a gateway it is sent as it is.
 */
export function sendProblemOrLeaveToGateway(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
	const location = request.project === undefined ? locations[toProblem(error).status] : undefined;
	if (location !== undefined) reply.header('x-accel-redirect', location);
	sendProblem(error, request, reply);
}
