import type { IncomingHttpHeaders } from 'node:http';
import type { SpanContext } from '@opentelemetry/api';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { FastifyBaseLogger, FastifyPluginCallback } from 'fastify';
import { ConfigError } from '../process/config.js';
import { withDeadline } from '../process/with-deadline.js';

/** Traces of requests, exported by OTLP. */
export interface Tracing {
	/** Register it before anything else. */
	plugin: FastifyPluginCallback;
	/** Exports the remaining spans, for at most 2 seconds. */
	stop(): Promise<void>;
}

/** Who sends requests: our own programs, or anybody. The synchroniser's are public too: the CRM calls its webhook. */
export type Callers = 'internal' | 'public';

interface TracingOptions {
	/** The name of the service. OTEL_SERVICE_NAME overrides it. */
	name: string;
	environment: NodeJS.ProcessEnv;
	/**
	 * Where requests come from. A request of an internal caller continues the caller's trace, and the caller decides whether
	 * it is traced. A public caller can't decide this. Its request begins a new trace, with a link to the caller's.
	 */
	callers: Callers;
	logger: FastifyBaseLogger;
}

/** The timeout for the last spans at a stop, which must finish within SHUTDOWN_TIMEOUT_SECONDS. */
const maxStopMs = 2000;

/**
 * The allowed attributes of a span. All others are dropped, above all the library's `url.path`: it contains the query, and
 * so the key.
 */
const allowedAttributes = new Set([
	'http.request.method',
	'http.route',
	'http.response.status_code',
	'fastify.root',
	'request_id',
]);

/**
 * Starts tracing if the standard variables of OpenTelemetry enable it. Otherwise the libraries are not even loaded. The
 * libraries read the other standard variables (headers, time limits, sampling, resource attributes) from the process.
 *
 * @returns undefined if tracing is off
 * @throws ConfigError when a variable has an unsupported value
 */
export async function startTracing({
	name,
	environment,
	callers,
	logger,
}: TracingOptions): Promise<Tracing | undefined> {
	if (!isWanted(environment)) return undefined;
	const [api, core, sdk, resources, { OTLPTraceExporter }, { FastifyOtelInstrumentation }] = await Promise.all([
		import('@opentelemetry/api'),
		import('@opentelemetry/core'),
		import('@opentelemetry/sdk-trace-base'),
		import('@opentelemetry/resources'),
		import('@opentelemetry/exporter-trace-otlp-proto'),
		import('@fastify/otel'),
	]);
	const provider = new sdk.BasicTracerProvider({
		resource: resources
			.defaultResource()
			.merge(resources.resourceFromAttributes({ 'service.name': name }))
			.merge(resources.detectResources({ detectors: [resources.envDetector] })),
		spanProcessors: [new sdk.BatchSpanProcessor(carefulExporter(new OTLPTraceExporter(), logger))],
	});
	// No context manager: each request has a single span, which no other span needs. Tracking every promise would cost time.
	const propagator = new core.W3CTraceContextPropagator();
	if (callers === 'internal') api.propagation.setGlobalPropagator(propagator);

	/** The caller's span from the request. It omits `tracestate`, which is free text of the client. */
	function callerOf(headers: IncomingHttpHeaders): SpanContext | undefined {
		const named = propagator.extract(api.ROOT_CONTEXT, headers, api.defaultTextMapGetter);
		const { traceState: _, ...context } = api.trace.getSpanContext(named) ?? { traceId: '', spanId: '', traceFlags: 0 };
		return api.isSpanContextValid(context) ? context : undefined;
	}

	const instrumentation = new FastifyOtelInstrumentation({
		instrumentHooks: false,
		instrumentHandler: false,
		recordExceptions: false,
		requestHook(span, request) {
			const route = request.routeOptions.url;
			span.updateName(route === undefined ? request.method : `${request.method} ${route}`);
			span.setAttribute('request_id', request.id);
			const caller = callers === 'public' ? callerOf(request.headers) : undefined;
			if (caller !== undefined) span.addLink({ context: caller });
			request.log = request.log.child({ trace_id: span.spanContext().traceId });
		},
	});
	instrumentation.setTracerProvider(provider);
	return {
		plugin: instrumentation.plugin(),
		async stop() {
			await withDeadline(
				provider.shutdown().catch(() => undefined),
				maxStopMs,
			);
		},
	};
}

function isWanted(environment: NodeJS.ProcessEnv): boolean {
	const { OTEL_TRACES_EXPORTER: exporter, OTEL_SDK_DISABLED: disabled } = environment;
	if (disabled?.toLowerCase() === 'true' || exporter === 'none') return false;
	const endpoints = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'];
	if (!exporter && !endpoints.some((variable) => environment[variable])) return false;

	const lines: string[] = [];
	if (exporter && exporter !== 'otlp') lines.push('OTEL_TRACES_EXPORTER is wrong: it must be otlp or none.');
	for (const variable of endpoints) {
		const url = environment[variable];
		if (url && !(URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)))
			lines.push(`${variable} is wrong: it must be a URL like http://collector:4318.`);
	}
	for (const variable of ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL']) {
		if (environment[variable] && environment[variable] !== 'http/protobuf')
			lines.push(`${variable} is wrong: it must be http/protobuf.`);
	}
	if (lines.length > 0) throw new ConfigError(lines);
	return true;
}

/** Exports only allowed attributes. Logs when an export fails, and when it works again. */
function carefulExporter(exporter: SpanExporter, logger: FastifyBaseLogger): SpanExporter {
	let failing = false;
	return {
		export(spans, done) {
			exporter.export(spans.map(careful), (result) => {
				const failed = result.code !== 0;
				if (failed && !failing) logger.warn({ err: result.error }, 'traces cannot be exported');
				if (!failed && failing) logger.info('traces are exported again');
				failing = failed;
				done(result);
			});
		},
		shutdown: () => exporter.shutdown(),
		forceFlush: async () => exporter.forceFlush?.(),
	};
}

function careful(span: ReadableSpan): ReadableSpan {
	const attributes = Object.fromEntries(
		Object.entries(span.attributes).filter(([name]) => allowedAttributes.has(name)),
	);
	// The library reports every problem as an error with its message. In OpenTelemetry a 4xx is not an error of the server.
	const failed = Number(attributes['http.response.status_code']) >= 500;
	// `tracestate` is free text of the client.
	const { traceState: _, ...context } = span.spanContext();
	return Object.create(span, {
		spanContext: { value: () => context },
		attributes: { value: attributes },
		events: { value: [] },
		status: { value: { code: failed ? 2 : 0 } },
	}) as ReadableSpan;
}
