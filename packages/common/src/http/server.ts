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
import { formats, readJson } from '../schemas/fields.js';
import { createHandlers } from './connections.js';
import { commonHeaders, Problem, sendProblem } from './problems.js';
import { malformed, type Query, readQuery } from './query.js';
import { logRequest } from './request-log.js';

export type Server = FastifyInstance<
	RawServerDefault,
	IncomingMessage,
	ServerResponse,
	FastifyBaseLogger,
	TypeBoxTypeProvider
>;

type ResponseListener = (request: FastifyRequest, reply: FastifyReply) => void;

declare module 'fastify' {
	interface FastifyInstance {
		/**
		 * Calls a listener once for each response that has begun, when it has been sent or when its connection is closed. Fastify's hook
		 * `onResponse` depends on the event `finish`, which Node.js 24 does not emit for a connection that the client has reset.
		 */
		onResponseEnd(listener: ResponseListener): void;
	}
}

export interface ServerOptions {
	logger: FastifyBaseLogger;
	/** Addresses and ranges (CIDR) of the proxies whose X-Forwarded-For is trusted. Default: none. */
	trustProxy?: string[] | undefined;
	limits?: Partial<ServerLimits>;
	tracing?: Tracing | undefined;
}

/** How long a client may take to send a request, and to read its response. */
export interface ServerLimits {
	headersTimeoutMs: number;
	requestTimeoutMs: number;
	/** Milliseconds between two checks for connections that exceed those timeouts. */
	checkIntervalMs: number;
	/** Milliseconds without progress after which a connection is closed, when its client does not read. */
	stallTimeoutMs: number;
}

const defaultLimits: ServerLimits = {
	headersTimeoutMs: 10_000,
	requestTimeoutMs: 15_000,
	checkIntervalMs: 1_000,
	stallTimeoutMs: 30_000,
};

/** Maximum size of a body, in bytes. */
const maxBodyBytes = 16_384;

/** Maximum number of connections. Further ones are closed at once. */
const maxConnections = 10_000;

/**
 * How requests are validated. Coercion is off: it would turn null into 0 and true into 1, and wrong data would be stored
 * with a 200.
 */
const strictValidation = {
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
 * A Fastify server with everything that the processes share: strict validation, the error format, 404 and 405, common headers,
 * one log line per request, and limits for slow and oversized requests. It accepts bodies of no media type.
 */
export async function createServer(options: ServerOptions): Promise<Server> {
	const { headersTimeoutMs, requestTimeoutMs, checkIntervalMs, stallTimeoutMs } = {
		...defaultLimits,
		...options.limits,
	};
	const httpOptions = {
		// A proxy must close idle connections before this server does: nginx keeps them for 60 seconds.
		keepAliveTimeout: 72_000,
		headersTimeout: headersTimeoutMs,
		requestTimeout: requestTimeoutMs,
		connectionsCheckingInterval: checkIntervalMs,
		// Node itself would respond to a missing header with an empty body. A hook rejects it.
		requireHostHeader: false,
	};
	const server = fastify({
		loggerInstance: options.logger,
		// Fastify's request log contains the URL, and so the key. A hook below logs one line without it.
		logController: new LogController({ disableRequestLogging: true }),
		// One logger for all requests: a child for each would cost time. A line about a request names its ID itself.
		childLoggerFactory: (logger) => logger,
		genReqId: () => randomUUID(),
		trustProxy: options.trustProxy ?? false,
		bodyLimit: maxBodyBytes,
		// Without this, the GET route would respond to HEAD, which must get 405 like any other method.
		exposeHeadRoutes: false,
		// Requests that arrive on open connections during the stop still get a response. It is the last one of the
		// connection.
		return503OnClosing: false,
		routerOptions: { querystringParser: readQuery as (text: string) => Record<string, unknown> },
		...createHandlers(httpOptions, options.logger),
		// No hook runs for a URL that the router can't read.
		frameworkErrors(error, request, reply) {
			sendProblem(error, request, reply);
			logRequest(request, reply);
		},
		ajv: strictValidation,
		// The schemas of responses are documentation. A serializer compiled from them would validate each response of an upsert.
		schemaController: { compilersFactory: { buildSerializer: () => () => JSON.stringify } },
	}).withTypeProvider<TypeBoxTypeProvider>();

	server.server.maxConnections = maxConnections;
	// Their size limits the headers. Beyond a number, Node.js 20 would drop headers silently, and later versions refuse the request.
	server.server.maxHeadersCount = 0;
	// After a usual close the system would keep what it has buffered for a client that reads nothing.
	server.server.setTimeout(stallTimeoutMs, (socket) => socket.resetAndDestroy());

	// A body that no route reads is not parsed either.
	server.removeAllContentTypeParsers();
	server.decorateRequest('problem');
	if (options.tracing) await server.register(options.tracing.plugin);
	server.setErrorHandler(sendProblem);

	const responseListeners: ResponseListener[] = [logRequest];
	server.decorate('onResponseEnd', (listener: ResponseListener) => void responseListeners.push(listener));

	/** The methods of each path. */
	const methods = new Map<string, string[]>();
	server.addHook('onRoute', (route) => {
		methods.set(route.url, [...(methods.get(route.url) ?? []), ...[route.method].flat()].sort());
		route.schema = { querystring: emptyQuery, ...route.schema };
	});
	// Synchronous hooks use callbacks instead of promises, because each promise costs time in every request. This one decides
	// before body, credentials and limits are checked.
	server.addHook('onRequest', (request, reply, done) => {
		// Not `once`, here and in `DrainedConnections`: it costs time in every request, and the event comes once.
		reply.raw.on('close', () => {
			if (reply.raw.headersSent) for (const listener of responseListeners) listener(request, reply);
		});
		reply.headers(commonHeaders).header('x-request-id', request.id);
		// RFC 9112, section 3.2.
		if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
			throw new Problem('invalid_query', { detail: 'The request must have a header Host.' });
		}
		if (!request.is404) return done();
		const allowed = methods.get(pathOf(request.url));
		if (allowed === undefined) throw new Problem('not_found');
		throw new Problem('method_not_allowed', { headers: { allow: allowed.join(', ') } });
	});
	// Runs after every onRequest hook, and so after 405, 401 and 429.
	server.addHook('preParsing', (request, _reply, _payload, done) => {
		if (malformed in (request.query as Query)) {
			throw new Problem('invalid_query', { errors: [{ field: 'query', message: 'must be percent-encoded UTF-8' }] });
		}
		if (isEncoded(request)) throw new Problem('unsupported_media_type');
		done();
	});
	return server;
}

/** Whether there is a body to read, and it is encoded. Some send this header with each request, also where it describes nothing. */
function isEncoded({ method, headers }: FastifyRequest): boolean {
	const { 'content-encoding': encoding = '', 'content-length': length = '', 'transfer-encoding': chunked } = headers;
	const hasBody = method === 'POST' && (chunked !== undefined || !/^0*$/.test(length));
	return hasBody && !['', 'identity'].includes(encoding.trim().toLowerCase());
}

/** Accepts bodies of strict JSON on the routes of this server. */
export function acceptJson(server: Server): void {
	server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, bytes, done) => {
		const body = readJson(bytes as Buffer);
		if (body === undefined) done(new Problem('invalid_json'));
		else done(null, body);
	});
}

/** The path as the router has decoded it, also of an absolute URL: an escaped slash and the like stay as they are. */
function pathOf(url: string): string {
	return decodeURI(url.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*/s, ''));
}
