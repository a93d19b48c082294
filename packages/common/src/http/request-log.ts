import { isIP } from 'node:net';
import type { FastifyContextConfig, FastifyReply, FastifyRequest } from 'fastify';

declare module 'fastify' {
	interface FastifyContextConfig {
		/** A probe route, which machines request every few seconds. Its requests are logged at the level `debug` and not traced. */
		probe?: boolean;
	}
}

/** Options of a probe route, which machines request every few seconds. */
export const probeRoute = { config: { probe: true, otel: false } } as const;

/** Logs a request that was responded to. */
export function logRequest(request: FastifyRequest, reply: FastifyReply): void {
	// Each reading creates an object.
	const { url, config } = request.routeOptions;
	request.log[levelOf(config, reply.statusCode)](
		{
			request_id: request.id,
			project: request.project?.code,
			key_id: request.project?.keyId,
			client: clientOf(request),
			method: request.method,
			route: url,
			status: reply.statusCode,
			code: request.problem?.code,
			reason: request.problem?.reason,
			fields: request.problem?.fields,
			duration_ms: Math.round(reply.elapsedTime * 100) / 100,
		},
		'request',
	);
}

/** `error` for failures of the service, `debug` for probe routes, `info` for everything else. */
function levelOf(config: FastifyContextConfig | undefined, status: number): 'debug' | 'info' | 'error' {
	if (config?.probe) return 'debug';
	return status >= 500 ? 'error' : 'info';
}

/** The client's address as trusted proxies report it. A proxy may pass on any text: only an address goes into the log. */
function clientOf({ ip, socket: { remoteAddress } }: FastifyRequest): string | undefined {
	return ip === remoteAddress || isIP(ip) !== 0 ? ip : remoteAddress;
}
