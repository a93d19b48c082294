import { readFileSync } from 'node:fs';
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { type TSchema, Type } from '@sinclair/typebox';
import type { FastifySchema, RouteOptions } from 'fastify';
import type { OpenAPIV3_1 } from 'openapi-types';
import { clientErrors } from '../http/connections.js';
import { catalogue, Problem, type ProblemCode } from '../http/problems.js';
import { version } from '../process/version.js';
import { maxPageLimit } from '../schemas/fields.js';
import { ProblemSchema } from './problem-schema.js';

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

/** A header that a client reads. */
export interface ResponseHeader {
	description: string;
	schema: NonNullable<OpenAPIV3_1.HeaderObject['schema']>;
	example: string | number;
	/** Without it: every response. */
	statuses?: number[];
}

type Schemas = Record<string, OpenAPIV3_1.SchemaObject>;
type Responses = Record<string, OpenAPIV3_1.ResponseObject>;

const exampleId = '0b5c8f0e-6c3e-4f0a-9a52-6d0c3c1f7b11';

const commonHeaders: Record<string, ResponseHeader> = {
	'x-request-id': {
		description: 'ID of this request, the `request_id` of an error. Quote it when you ask for help.',
		schema: { type: 'string' },
		example: exampleId,
	},
	'Retry-After': {
		description: 'Whole seconds to wait before the next attempt. Absent with `internal_error`.',
		schema: { type: 'integer', minimum: 1 },
		example: 1,
		statuses: [429, 500, 503],
	},
};

/** The errors of every operation with a body. */
const bodyProblems: ProblemCode[] = ['invalid_body', 'invalid_json', 'payload_too_large', 'unsupported_media_type'];

/** The errors of every operation. */
const commonProblems: ProblemCode[] = [
	'invalid_query',
	'unauthorized',
	'not_found',
	'method_not_allowed',
	'database_error',
	'internal_error',
	'overloaded',
];

/** A guide in Markdown without its title, which the page of the reference shows itself. */
export function guideText(file: URL): string {
	return readFileSync(file, 'utf8').replace(/^# .*\n+/, '');
}

/** Settings of @fastify/swagger, which generates the document from the schemas of the routes. */
export function documentOptions(reference: ReferenceInfo): FastifyDynamicSwaggerOptions {
	const { title, summary, description, problems = [] } = reference;
	const headers = { ...commonHeaders, ...reference.headers };
	const routes = new Map<string | undefined, RouteOptions>();
	const openapi: Partial<OpenAPIV3_1.Document> = {
		openapi: '3.1.0',
		info: {
			...{ title, summary, description, version },
			license: { name: 'MIT', identifier: 'MIT' },
			contact: { name: 'The operator of this service' },
		},
		tags: [{ name: title, description: summary }],
		// Relative: it also works behind the gateway.
		servers: [{ url: '/' }],
		// The project is a parameter of each operation: of two keys that are required together, tools import the first alone. The page
		// makes a credential of it (start.js).
		security: [{ api_key: [] }],
		components: {
			securitySchemes: {
				api_key: {
					type: 'apiKey',
					in: 'query',
					name: 'api_key',
					description: 'One of the keys of that project: up to 512 characters without white space.',
				},
			},
			headers: Object.fromEntries(Object.entries(headers).map(([name, { statuses: _, ...header }]) => [name, header])),
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
			return { schema: { ...inStandardTerms(request), tags: [title] }, url };
		},
		transformObject(made) {
			if (!('openapiObject' in made)) throw new Error('The document must be OpenAPI 3.1.');
			const document = made.openapiObject as OpenAPIV3_1.Document;
			const schemas: Schemas = { Problem: ProblemSchema as OpenAPIV3_1.SchemaObject };
			for (const { get, post } of Object.values(document.paths ?? {}) as OpenAPIV3_1.PathItemObject[]) {
				const operation = (get ?? post) as OpenAPIV3_1.OperationObject;
				const route = routes.get(operation.operationId) as RouteOptions;
				const { content = {} } = (operation.requestBody ?? {}) as OpenAPIV3_1.RequestBodyObject;
				for (const media of Object.values(content)) Object.assign(media, { examples: route.config?.examples?.body });
				const responses = { ...successes(route, schemas), ...errors(route, problems) };
				for (const [status, response] of Object.entries(responses)) {
					const sent = Object.entries(headers).filter(([, { statuses }]) => statuses?.includes(Number(status)) ?? true);
					response.headers = Object.fromEntries(sent.map(([name]) => [name, { $ref: `#/components/headers/${name}` }]));
				}
				operation.responses = responses;
			}
			document.components = { ...document.components, schemas };
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
function successes({ schema, config }: RouteOptions, schemas: Schemas): Responses {
	const declared = Object.entries((schema?.response ?? {}) as Record<string, TSchema>);
	return Object.fromEntries(
		declared.map(([status, body]) => {
			const { description = '' } = body;
			if (body.type === 'null') return [status, { description }];
			const media = { schema: withReferences(body, schemas), examples: config?.examples?.response ?? {} };
			return [status, { description, content: { 'application/json': media } }];
		}),
	);
}

/** The errors of an operation by their status, with the texts of the catalogue. */
function errors({ schema, config }: RouteOptions, ofService: ProblemCode[]): Responses {
	const codes = [...commonProblems, ...ofService, ...(config?.problems ?? [])];
	if (schema?.body !== undefined) codes.unshift(...bodyProblems);
	const described = codes.map((code) => ({ problem: exampleOf(code), text: catalogue[code].detail as string }));
	for (const problem of Object.values(clientErrors)) described.push({ problem, text: problem.detail });

	const responses: Responses = {};
	for (const { problem, text } of described) {
		const { status, code } = problem;
		const known = responses[status];
		const examples = known?.content?.['application/problem+json']?.examples ?? {};
		if (code in examples) continue;
		examples[code] = { summary: code, value: JSON.parse(problem.body(exampleId)) };
		responses[status] = {
			description: `${known === undefined ? '' : `${known.description} `}\`${code}\`: ${text}`,
			content: {
				'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' }, examples },
			},
		};
	}
	return responses;
}

function exampleOf(code: ProblemCode): Problem {
	if (code === 'invalid_query')
		return new Problem(code, { errors: [{ field: 'query', message: 'must be percent-encoded UTF-8' }] });
	if (code === 'invalid_body') return new Problem(code, { errors: [{ field: 'body', message: 'must be an object' }] });
	return new Problem(code);
}

/** The formats of this product in standard terms. An integer in a URL is text to the validation only. */
const standardTerms: Record<string, Partial<OpenAPIV3_1.NonArraySchemaObject>> = {
	'stored-text': {},
	'calendar-date': { format: 'date' },
	timestamp: { format: 'date-time' },
	'decimal-id': { type: 'integer', format: 'int64', minimum: 1 },
	'page-limit': { type: 'integer', minimum: 1, maximum: maxPageLimit },
};

/** A copy of a schema with these formats in standard terms. */
function inStandardTerms(schema: FastifySchema): FastifySchema {
	return copy(schema, (value) => {
		const known = standardTerms[String(value.format)];
		if (known === undefined) return value;
		const { format: _, ...rest } = value;
		return { ...rest, ...known };
	});
}

/** A copy of a schema in which each schema with an `$id` is a reference. It is described once, in `schemas`. */
function withReferences(schema: object, schemas: Schemas): OpenAPIV3_1.SchemaObject {
	return copy(schema, (value) => {
		const { $id, ...rest } = value;
		if (typeof $id !== 'string') return value;
		schemas[$id] = withReferences(rest, schemas);
		return { $ref: `#/components/schemas/${$id}` };
	});
}

/** A deep copy in which each object is replaced. */
function copy<Value extends object>(value: Value, replace: (object: Record<string, unknown>) => object): Value {
	return JSON.parse(
		JSON.stringify(value, (_, each) =>
			typeof each === 'object' && each !== null && !Array.isArray(each) ? replace(each) : each,
		),
	) as Value;
}
