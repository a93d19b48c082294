import { setTimeout } from 'node:timers/promises';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { FastifyBaseLogger } from 'fastify';

export type Tracing = Awaited<ReturnType<typeof startTracing>>;

/** Who sends requests: our own programs, whose traces are continued, or anybody, whose trace context is ignored. */
export type Callers = 'internal' | 'public';

/** All other attributes are dropped, above all the library's `url.path`: it contains the query, and so the key. */
const allowed = ['http.request.method', 'http.route', 'http.response.status_code', 'fastify.root', 'request_id'];

/** Starts tracing. The libraries read the standard variables of OpenTelemetry, and are not loaded before. */
export async function startTracing(name: string, callers: Callers, logger: FastifyBaseLogger) {
	const [api, core, sdk, resources, { OTLPTraceExporter }, { FastifyOtelInstrumentation }] = await Promise.all([
		import('@opentelemetry/api'),
		import('@opentelemetry/core'),
		import('@opentelemetry/sdk-trace-base'),
		import('@opentelemetry/resources'),
		import('@opentelemetry/exporter-trace-otlp-proto'),
		import('@fastify/otel'),
	]);
	const own = resources.resourceFromAttributes({ 'service.name': name });
	const set = resources.detectResources({ detectors: [resources.envDetector] });
	const provider = new sdk.BasicTracerProvider({
		resource: resources.defaultResource().merge(own).merge(set),
		spanProcessors: [new sdk.BatchSpanProcessor(restrict(new OTLPTraceExporter(), logger))],
	});
	// No context manager: each request has a single span, which no other span needs. Tracking every promise would cost time.
	if (callers === 'internal') api.propagation.setGlobalPropagator(new core.W3CTraceContextPropagator());
	const instrumentation = new FastifyOtelInstrumentation({
		instrumentHooks: false,
		instrumentHandler: false,
		recordExceptions: false,
		requestHook(span, request) {
			span.updateName([request.method, request.routeOptions.url].join(' ').trim());
			span.setAttribute('request_id', request.id);
			request.log = request.log.child({ trace_id: span.spanContext().traceId });
		},
	});
	instrumentation.setTracerProvider(provider);
	const exportRest = () => provider.shutdown().catch(() => undefined);
	// A stop must finish within SHUTDOWN_TIMEOUT_SECONDS.
	const stop = () => Promise.race([exportRest(), setTimeout(2000, undefined, { ref: false })]);
	return { plugin: instrumentation.plugin(), stop };
}

/** Exports only what is allowed. Logs the first of several exports that fail. */
function restrict(exporter: SpanExporter, logger: FastifyBaseLogger): SpanExporter {
	const send = exporter.export.bind(exporter);
	let isFailing = false;
	exporter.export = (spans, done) =>
		send(spans.map(withoutSecrets), (result) => {
			if (result.code !== 0 && !isFailing) logger.warn({ err: result.error }, 'traces cannot be exported');
			isFailing = result.code !== 0;
			done(result);
		});
	return exporter;
}

function withoutSecrets(span: ReadableSpan): ReadableSpan {
	const attributes = Object.fromEntries(Object.entries(span.attributes).filter(([name]) => allowed.includes(name)));
	// The library reports every problem as an error with its message. In OpenTelemetry a 4xx is not an error of the server.
	const status = { code: Number(attributes['http.response.status_code']) >= 500 ? 2 : 0 };
	// `tracestate` is free text of the client.
	const context = { ...span.spanContext(), traceState: undefined };
	const replaced = { spanContext: () => context, attributes, events: [], status };
	return new Proxy(span, { get: (of, name) => Reflect.get(name in replaced ? replaced : of, name) });
}
