import { readFileSync } from 'node:fs';
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { type TObject, type TSchema, Type } from '@sinclair/typebox';
import type { FastifySchema, RouteOptions } from 'fastify';
import type { OpenAPIV3_1 } from 'openapi-types';
import { catalogue, Problem, type ProblemCode, toProblem } from '../http/problems.js';
import { version } from '../process/version.js';
import { formats } from '../schemas/fields.js';
import { ProblemSchema } from '../schemas/problem.js';

/** The content of a service's document, apart from its operations, which are the routes with an operation ID. */
export interface ReferenceInfo {
	title: string;
	summary: string;
	/** The guide for callers, CommonMark. */
	description: string;
	/** Errors of all operations, besides those that both services have. */
	problems?: ProblemCode[];
	headers?: Record<string, ResponseHeader>;
}

type Examples = Record<string, { summary: string; value: unknown }>;

declare module 'fastify' {
	interface FastifyContextConfig {
		/** Examples of the body, and of the response with the status 200. */
		examples?: { body?: Examples; response: Examples };
		/** Errors of this operation only. */
		problems?: ProblemCode[];
	}
}

export interface ResponseHeader {
	description: string;
	schema: NonNullable<OpenAPIV3_1.HeaderObject['schema']>;
	example: string | number;
	/** Whether each response with one of the statuses has it. */
	required?: boolean;
	/** Without it: every response. */
	statuses?: number[];
	/** Operation IDs. Without it: every operation. */
	operations?: string[];
}

const exampleId = '0b5c8f0e-6c3e-4f0a-9a52-6d0c3c1f7b11';

const commonHeaders: Record<string, ResponseHeader> = {
	'x-request-id': {
		description: 'ID of this request, the `request_id` of an error. Quote it when you ask for help.',
		schema: { type: 'string' },
		example: exampleId,
		required: true,
	},
	'Cache-Control': {
		description: '`private, no-cache`: for your own cache only; revalidate before each use. `no-store`: do not cache.',
		schema: { type: 'string', enum: ['no-store', 'private, no-cache'] },
		example: 'no-store',
		required: true,
	},
	'Referrer-Policy': {
		description: 'The URL contains the key, so it must not be passed on.',
		schema: { type: 'string', enum: ['no-referrer'] },
		example: 'no-referrer',
		required: true,
	},
	'X-Content-Type-Options': {
		description: 'Browsers must not guess another content type.',
		schema: { type: 'string', enum: ['nosniff'] },
		example: 'nosniff',
		required: true,
	},
	'WWW-Authenticate': {
		description: 'How to authenticate; the realm is always the same.',
		schema: { type: 'string', enum: ['ApiKey realm="contacts"'] },
		example: 'ApiKey realm="contacts"',
		required: true,
		statuses: [401],
	},
	Allow: {
		description: 'The methods that this path accepts.',
		schema: { type: 'string', enum: ['GET', 'POST'] },
		example: 'GET',
		required: true,
		statuses: [405],
	},
	'Retry-After': {
		description: 'Whole seconds to wait before the next attempt. Absent with `internal_error`.',
		schema: { type: 'integer', minimum: 1 },
		example: 1,
		statuses: [429, 500, 503],
	},
};

/** The errors of every operation. */
const commonProblems: ProblemCode[] = [
	'unauthorized',
	'not_found',
	'method_not_allowed',
	'database_error',
	'internal_error',
	'overloaded',
];
const bodyProblems: ProblemCode[] = ['invalid_json', 'payload_too_large', 'unsupported_media_type'];

/** Errors with another status than that of their code: the server responds to the connection, before there is a route. */
const connectionProblems: Record<number, { code: ProblemCode; text: string }> = {
	408: {
		code: 'invalid_query',
		text: 'The headers did not arrive within 10 seconds, or the request within 15.',
	},
	431: { code: 'payload_too_large', text: 'URL and headers are larger than 16 KiB.' },
};

/** A guide in Markdown without its title, which the page of the reference shows itself. */
export function guideText(file: URL): string {
	return readFileSync(file, 'utf8').replace(/^# .*\n+/, '');
}

/** Settings of @fastify/swagger, which generates the document from the schemas of the routes. */
export function documentOptions(reference: ReferenceInfo): FastifyDynamicSwaggerOptions {
	const { title, summary, description } = reference;
	const headers = { ...commonHeaders, ...reference.headers };
	const routes = new Map<string, RouteOptions>();
	const openapi: Partial<OpenAPIV3_1.Document> = {
		openapi: '3.1.0',
		info: { title, summary, description, version },
		// Relative: it also works behind the gateway.
		servers: [{ url: '/' }],
		security: [{ project: [], api_key: [] }],
		components: {
			securitySchemes: {
				project: { type: 'apiKey', in: 'query', name: 'project', description: 'The code of your project.' },
				api_key: {
					type: 'apiKey',
					in: 'query',
					name: 'api_key',
					description: 'One of the keys of that project: up to 512 characters without white space.',
				},
			},
			headers: Object.fromEntries(
				Object.entries(headers).map(([name, { statuses: _, operations: __, ...header }]) => [name, header]),
			),
		},
	};
	return {
		mode: 'dynamic',
		openapi: openapi as NonNullable<FastifyDynamicSwaggerOptions['openapi']>,
		transform({ schema, url, route }) {
			if (schema?.operationId === undefined) return { schema: { hide: true }, url };
			routes.set(schema.operationId, route);
			const isConditional = Object.hasOwn(schema.response ?? {}, 304);
			const request = { ...schema, ...(isConditional ? { headers: ifNoneMatch } : {}), response: undefined };
			return { schema: { ...(inStandardTerms(request) as FastifySchema), tags: [title] }, url };
		},
		transformObject(made) {
			if (!('openapiObject' in made)) throw new Error('The document must be OpenAPI 3.1.');
			const document = made.openapiObject as OpenAPIV3_1.Document;
			const schemas: Record<string, OpenAPIV3_1.SchemaObject> = {};
			for (const { get, post } of Object.values(document.paths ?? {}) as OpenAPIV3_1.PathItemObject[]) {
				const operation = get ?? post;
				const route = routes.get(String(operation?.operationId));
				if (operation === undefined || route === undefined) continue;
				for (const media of Object.values((operation.requestBody as OpenAPIV3_1.RequestBodyObject)?.content ?? {})) {
					Object.assign(media, { examples: route.config?.examples?.body });
				}
				const responses = { ...successes(route, schemas), ...errors(route, reference.problems ?? []) };
				Object.assign(operation, { responses });
				for (const [status, response] of Object.entries(responses)) {
					const has = ({ statuses, operations }: ResponseHeader) =>
						(statuses?.includes(Number(status)) ?? true) &&
						(operations?.includes(String(operation.operationId)) ?? true);
					const names = Object.keys(headers).filter((name) => has(headers[name] as ResponseHeader));
					Object.assign(response, {
						headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
					});
				}
			}
			document.components = {
				...document.components,
				schemas: { Problem: published(ProblemSchema, schemas), ...schemas },
			};
			return document as ReturnType<NonNullable<FastifyDynamicSwaggerOptions['transformObject']>>;
		},
	};
}

const ifNoneMatch = Type.Object({
	'If-None-Match': Type.Optional(
		Type.String({
			description: 'The `ETag` of the response that you have: while it is the same, the response is an empty 304.',
		}),
	),
});

/** The responses whose schemas stand in the route. */
function successes(
	{ schema, config }: RouteOptions,
	schemas: Record<string, OpenAPIV3_1.SchemaObject>,
): Record<string, OpenAPIV3_1.ResponseObject> {
	const declared = Object.entries((schema?.response ?? {}) as Record<string, TSchema>);
	return Object.fromEntries(
		declared.map(([status, body]) => {
			const { description = '' } = body;
			const content = {
				'application/json': { schema: published(body, schemas), examples: config?.examples?.response },
			};
			return [status, { description, ...(body.type === 'null' ? {} : { content }) }];
		}),
	) as Record<string, OpenAPIV3_1.ResponseObject>;
}

/** The errors of an operation by their status, with the texts of the catalogue. */
function errors(
	{ schema, config }: RouteOptions,
	ofService: ProblemCode[],
): Record<string, OpenAPIV3_1.ResponseObject> {
	const responses: Record<string, OpenAPIV3_1.ResponseObject> = {};
	function add(status: number, code: ProblemCode, text: string, examples: Record<string, Problem>): void {
		const known = responses[status];
		const described = Object.entries(examples).map(([summary, problem]) => [
			summary.replaceAll(' ', '_'),
			{ summary, value: JSON.parse(problem.body(exampleId)) as unknown },
		]);
		responses[status] = {
			description: [known?.description, `\`${code}\`: ${text}`].filter(Boolean).join(' '),
			content: {
				'application/problem+json': {
					schema: { $ref: '#/components/schemas/Problem' },
					examples: {
						...known?.content?.['application/problem+json']?.examples,
						...(Object.fromEntries(described) as Record<string, OpenAPIV3_1.ExampleObject>),
					},
				},
			},
		};
	}

	const { body, querystring } = (schema ?? {}) as { body?: TObject; querystring: TObject };
	if (body !== undefined) {
		add(400, 'invalid_body', catalogue.invalid_body.detail, wrongFields(body, 'body'));
		for (const code of bodyProblems) addDefault(code);
	}
	const malformed = { 'A malformed URL or request': new Problem('invalid_query') };
	add(400, 'invalid_query', catalogue.invalid_query.detail, {
		...wrongFields(querystring, 'querystring'),
		...malformed,
	});
	for (const code of [...commonProblems, ...ofService, ...(config?.problems ?? [])]) addDefault(code);
	for (const [status, { code, text }] of Object.entries(connectionProblems)) {
		add(Number(status), code, text, { [code]: new Problem(code, { status: Number(status) }) });
	}
	return responses;

	function addDefault(code: ProblemCode): void {
		add(catalogue[code].status, code, catalogue[code].detail, { [code]: new Problem(code) });
	}
}

/** Examples of errors in a part of a request, created by the code that creates the real ones. */
function wrongFields(part: TObject, validationContext: 'body' | 'querystring'): Record<string, Problem> {
	const what = validationContext === 'body' ? 'field' : 'parameter';
	const wrong = Object.entries(part.properties).flatMap(([name, { format }]) =>
		Object.hasOwn(formats, format ?? '') ? [{ keyword: 'format', params: { format }, instancePath: `/${name}` }] : [],
	);
	const unknown = { keyword: 'additionalProperties', params: {}, instancePath: '', parentSchema: part };
	return {
		...(wrong.length === 0 ? {} : { [`A wrong ${what}`]: toProblem({ validation: wrong, validationContext }) }),
		[`An unknown ${what}`]: toProblem({ validation: [unknown], validationContext }),
	};
}

/** The formats of this product in standard terms. An integer in a URL is text to the validation only. */
const standardTerms: Record<string, Partial<OpenAPIV3_1.NonArraySchemaObject>> = {
	'stored-text': {},
	'calendar-date': { format: 'date' },
	timestamp: { format: 'date-time' },
	'decimal-id': { type: 'integer', format: 'int64', minimum: 1 },
	'page-limit': { type: 'integer', minimum: 1, maximum: 1000 },
};

/** A copy of a schema with these formats in standard terms. */
function inStandardTerms(value: unknown): unknown {
	if (Array.isArray(value)) return value.map(inStandardTerms);
	if (typeof value !== 'object' || value === null) return value;
	const copy = Object.fromEntries(Object.entries(value).map(([name, each]) => [name, inStandardTerms(each)]));
	const known = standardTerms[String(copy.format)];
	if (known === undefined) return copy;
	const { format: _, ...rest } = copy;
	return { ...rest, ...known };
}

/**
 * The schema of a response, as it is published. It allows further properties, so that a client that validates responses
 * survives a new field. A schema with an $id is described once.
 *
 * @param schemas receives those schemas by their $id
 */
function published(value: unknown, schemas: Record<string, OpenAPIV3_1.SchemaObject>): OpenAPIV3_1.SchemaObject {
	if (Array.isArray(value)) return value.map((each) => published(each, schemas)) as OpenAPIV3_1.SchemaObject;
	if (typeof value !== 'object' || value === null) return value as unknown as OpenAPIV3_1.SchemaObject;
	const { $id, additionalProperties: _, ...rest } = value as { $id?: string; additionalProperties?: unknown };
	const copy = Object.fromEntries(Object.entries(rest).map(([name, each]) => [name, published(each, schemas)]));
	if ($id === undefined) return copy;
	schemas[$id] = copy;
	return { $ref: `#/components/schemas/${$id}` } as OpenAPIV3_1.SchemaObject;
}
