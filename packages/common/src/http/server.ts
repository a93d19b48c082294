import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import fastify, {
	type FastifyBaseLogger,
	type FastifyInstance,
	type FastifyReply,
	type FastifyRequest,
	LogController,
	type RawServerDefault,
} from 'fastify';
import type { Tracing } from '../observability/tracing.js';
import { emptyQuery } from '../schemas/credentials.js';
import { formats } from '../schemas/fields.js';
import { createConnections } from './connections.js';
import { methodNotAllowed } from './method-not-allowed.js';
import { commonHeaders, Problem, sendProblem } from './problems.js';
import { malformedParameters, readJson } from './strict-parsing.js';

export type Server = FastifyInstance<
	RawServerDefault,
	IncomingMessage,
	ServerResponse,
	FastifyBaseLogger,
	TypeBoxTypeProvider
>;

export interface ServerOptions {
	logger: FastifyBaseLogger;
	/** Addresses and ranges (CIDR) of the proxies whose X-Forwarded-For is trusted. Default: none. */
	trustProxy?: string[] | undefined;
	limits?: Partial<ServerLimits>;
	tracing?: Tracing | undefined;
}

export interface ServerLimits {
	/** Maximum size of a body, in bytes. */
	bodyBytes: number;
	/** Timeout for the headers, in milliseconds. */
	headersTimeout: number;
	/** Timeout for the whole request, in milliseconds. */
	requestTimeout: number;
	/** Milliseconds without progress after which a connection is closed, when a client does not read its response. */
	stallTimeout: number;
	/** Maximum number of connections; further ones are closed at once. */
	connections: number;
	/** Milliseconds between two checks for connections that exceed those timeouts. */
	checkInterval: number;
}

const defaultLimits: ServerLimits = {
	bodyBytes: 16_384,
	headersTimeout: 10_000,
	requestTimeout: 15_000,
	checkInterval: 1_000,
	stallTimeout: 30_000,
	connections: 10_000,
};

/**
 * How requests are validated. Coercion is off: it would turn null into 0 and true into 1, and wrong data would be stored
 * with a 200.
 */
export const strictValidation = {
	customOptions: {
		coerceTypes: false,
		removeAdditional: false,
		useDefaults: false,
		allErrors: true,
		allowUnionTypes: true,
		// The error for an unknown name lists the known names from the schema.
		verbose: true,
		formats: Object.fromEntries(Object.entries(formats).map(([name, { validate }]) => [name, validate])),
	},
} as const;

/**
 * A Fastify server with everything that both services share: strict parsing, the error format, 404 and 405, common headers,
 * one log line per request, and limits for slow and oversized requests.
 */
export async function createServer(options: ServerOptions): Promise<Server> {
	const limits = { ...defaultLimits, ...options.limits };
	const connections = createConnections();
	const server = fastify({
		loggerInstance: options.logger,
		// Fastify's request log contains the URL, and so the key. A hook below logs one line without it.
		logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
		genReqId: () => randomUUID(),
		trustProxy: options.trustProxy ?? false,
		bodyLimit: limits.bodyBytes,
		// Without this, the GET route would respond to HEAD, which must get 405 like any other method.
		exposeHeadRoutes: false,
		// Requests that arrive on open connections during the stop still get a response. It is the last one of the
		// connection.
		return503OnClosing: false,
		// A proxy must close idle connections before this server does: nginx keeps them for 60 seconds.
		keepAliveTimeout: 72_000,
		requestTimeout: limits.requestTimeout,
		connectionTimeout: limits.stallTimeout,
		http: {
			headersTimeout: limits.headersTimeout,
			requestTimeout: limits.requestTimeout,
			connectionsCheckingInterval: limits.checkInterval,
			// Node itself would respond to a missing Host header with an empty body. A hook below rejects it.
			requireHostHeader: false,
		},
		clientErrorHandler: connections.onClientError,
		frameworkErrors: sendProblem,
		ajv: strictValidation,
	}).withTypeProvider<TypeBoxTypeProvider>();

	server.server.maxConnections = limits.connections;
	connections.watch(server);
	// Node would respond to any Expect except 100-continue with an empty 417. RFC 9110 allows to ignore the header.
	server.server.on('checkExpectation', (request, response) => server.server.emit('request', request, response));

	server.removeAllContentTypeParsers();
	server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, bytes, done) => {
		try {
			done(null, readJson(bytes as Buffer));
		} catch (error) {
			done(error as Problem);
		}
	});

	if (options.tracing) await server.register(options.tracing.plugin);
	server.setErrorHandler(sendProblem);
	// Synchronous hooks use callbacks instead of promises, because each promise costs time in every request.
	server.addHook('onRequest', (request, reply, done) => {
		reply.headers({ ...commonHeaders, 'x-request-id': request.id });
		// RFC 9112, section 3.2: exactly one Host header, or none in older versions.
		const hosts = countHosts(request.raw.rawHeaders);
		if (hosts > 1 || (hosts === 0 && request.raw.httpVersion === '1.1')) throw new Problem('invalid_query');
		done();
	});
	await server.register(methodNotAllowed);
	server.addHook('onRoute', (route) => {
		route.schema = { querystring: emptyQuery, ...route.schema };
	});
	// Runs after every onRequest hook, and so after 405, 401 and 429.
	server.addHook('preParsing', (request, _reply, _payload, done) => {
		if (malformedParameters(request.url).length > 0) {
			throw new Problem('invalid_query', { errors: [{ field: '', message: 'must be percent-encoded UTF-8' }] });
		}
		const encoding = request.headers['content-encoding'];
		if (encoding !== undefined && encoding.toLowerCase() !== 'identity') throw new Problem('unsupported_media_type');
		done();
	});
	server.addHook('onResponse', (request, reply, done) => {
		request.log[levelOf(request, reply)](
			{
				project: request.project?.code,
				key_id: request.project?.keyId,
				client: clientOf(request),
				method: request.method,
				route: request.routeOptions.url,
				status: reply.statusCode,
				duration_ms: Math.round(reply.elapsedTime * 100) / 100,
			},
			'request',
		);
		done();
	});
	return server;
}

/** The client's address as trusted proxies report it. A proxy may pass on any text: only an address goes into the log. */
function clientOf({ ip, socket }: FastifyRequest): string | undefined {
	return isIP(ip) === 0 ? socket.remoteAddress : ip;
}

/** @param headers raw names and values in turn. The parsed headers contain only the first of several Host headers */
function countHosts(headers: readonly string[]): number {
	let count = 0;
	for (let index = 0; index < headers.length; index += 2) {
		const name = headers[index] as string;
		if (name.length === 4 && name.toLowerCase() === 'host') count++;
	}
	return count;
}

/** `error` for failures of the service, `debug` for probe routes, `info` for everything else. */
function levelOf(request: FastifyRequest, reply: FastifyReply): 'debug' | 'info' | 'error' {
	if (request.routeOptions.config?.probe) return 'debug';
	return reply.statusCode >= 500 ? 'error' : 'info';
}
