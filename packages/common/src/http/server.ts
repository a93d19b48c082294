import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
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
	/** Addresses and ranges (CIDR) of the proxies whose X-Forwarded-For is believed; none: nobody's is. */
	trustProxy?: string[] | undefined;
	limits?: Partial<ServerLimits>;
	tracing?: Tracing | undefined;
}

export interface ServerLimits {
	/** The largest body that is read, in bytes. */
	bodyBytes: number;
	/** Milliseconds within which the headers must have come. */
	headersTimeout: number;
	/** Milliseconds within which the whole request must have come. */
	requestTimeout: number;
	/** Milliseconds without any progress after which a connection is closed: of a client that does not read its response. */
	stallTimeout: number;
	/** Maximum number of connections; more are closed as soon as they are made. */
	connections: number;
	/** Milliseconds between two looks for connections that are beyond those times. */
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

/** How requests are validated. Coercion would turn null into 0 and true into 1: wrong data would be stored with a 200. */
export const strictValidation = {
	customOptions: {
		coerceTypes: false,
		removeAdditional: false,
		useDefaults: false,
		allErrors: true,
		allowUnionTypes: true,
		// The error for an unknown name lists the known ones, which are in the schema.
		verbose: true,
		formats: Object.fromEntries(Object.entries(formats).map(([name, { validate }]) => [name, validate])),
	},
} as const;

/**
 * A Fastify server with everything that both services have in common: strict parsing, the error shape, 404 and 405, the
 * headers of every response, one log line a request, and the limits against slow and oversized requests.
 */
export async function createServer(options: ServerOptions): Promise<Server> {
	const limits = { ...defaultLimits, ...options.limits };
	const connections = createConnections();
	const server = fastify({
		loggerInstance: options.logger,
		// Fastify's own request log holds the URL, and with it the key; one line without it is written below.
		logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
		genReqId: () => randomUUID(),
		trustProxy: options.trustProxy ?? false,
		bodyLimit: limits.bodyBytes,
		// The GET route would respond to a HEAD; it is another method, and refused like one.
		exposeHeadRoutes: false,
		// Requests that arrive on open connections during the stop still get a response, each connection's last.
		return503OnClosing: false,
		// Behind a proxy the proxy's idle connections must end first: nginx keeps them for 60 seconds.
		keepAliveTimeout: 72_000,
		requestTimeout: limits.requestTimeout,
		connectionTimeout: limits.stallTimeout,
		http: {
			headersTimeout: limits.headersTimeout,
			requestTimeout: limits.requestTimeout,
			connectionsCheckingInterval: limits.checkInterval,
			// Node would respond to a missing Host header by itself, with an empty body; it is refused below.
			requireHostHeader: false,
		},
		clientErrorHandler: connections.onClientError,
		frameworkErrors: sendProblem,
		ajv: strictValidation,
	}).withTypeProvider<TypeBoxTypeProvider>();

	server.server.maxConnections = limits.connections;
	connections.watch(server);
	// Any Expect but 100-continue would get an empty 417 from Node; RFC 9110 allows to pass over it.
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
	// Hooks call back instead of returning promises where they wait for nothing: each promise costs every request.
	server.addHook('onRequest', (request, reply, done) => {
		reply.headers({ ...commonHeaders, 'x-request-id': request.id });
		// RFC 9112, section 3.2: exactly one, or none in older versions.
		const hosts = countHosts(request.raw.rawHeaders);
		if (hosts > 1 || (hosts === 0 && request.raw.httpVersion === '1.1')) throw new Problem('invalid_query');
		done();
	});
	await server.register(methodNotAllowed);
	server.addHook('onRoute', (route) => {
		route.schema = { querystring: emptyQuery, ...route.schema };
	});
	// Behind every onRequest hook, and so behind 405, 401 and 429.
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
				// As the proxies that are trusted tell it.
				client: request.ip,
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

/** @param headers names and values in turn, as they came: of several Host headers the parsed ones hold the first alone */
function countHosts(headers: readonly string[]): number {
	let count = 0;
	for (let index = 0; index < headers.length; index += 2) {
		const name = headers[index] as string;
		if (name.length === 4 && name.toLowerCase() === 'host') count++;
	}
	return count;
}

/** `error` for what the service failed at, `debug` for what machines ask every few seconds, `info` for everything else. */
function levelOf(request: FastifyRequest, reply: FastifyReply): 'debug' | 'info' | 'error' {
	if (request.routeOptions.config?.probe) return 'debug';
	return reply.statusCode >= 500 ? 'error' : 'info';
}
