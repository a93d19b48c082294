import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import type { FastifySchema } from 'fastify';
import type { OpenAPIV3_1 } from 'openapi-types';
import { version } from '../process/version.js';
import { ProblemSchema } from '../schemas/problem.js';
import { sharedHeaders } from './headers.js';
import type { OperationReference } from './operation.js';

/** The content of a service's document, apart from its operations. */
export interface ReferenceInfo {
	title: string;
	summary: string;
	/** CommonMark. */
	description: string;
	/** Schemas that the service's responses refer to, by name. */
	schemas: Record<string, OpenAPIV3_1.SchemaObject>;
	/** Response headers that are described once, by name. */
	headers?: Record<string, OpenAPIV3_1.HeaderObject>;
}

/** Settings of @fastify/swagger, which generates the document from the schemas that validate requests. */
export function documentOptions(reference: ReferenceInfo): FastifyDynamicSwaggerOptions {
	const { title, summary, description, schemas, headers } = reference;
	const operations = new Map<string, OperationReference>();
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
			schemas: { Problem: plain(ProblemSchema), ...schemas },
			headers: { ...sharedHeaders, ...headers },
		},
	};
	return {
		mode: 'dynamic',
		openapi: openapi as NonNullable<FastifyDynamicSwaggerOptions['openapi']>,
		transform({ schema, url, route }) {
			const operation = route.config?.reference;
			if (operation === undefined) return { schema: { hide: true }, url };
			operations.set(String(schema?.operationId), operation);
			const { summary: short, description: long } = operation;
			const described = inStandardFormats({ ...schema, response: undefined }) as FastifySchema;
			return { schema: { ...described, summary: short, description: long, tags: [title] }, url };
		},
		transformObject(made) {
			if (!('openapiObject' in made)) throw new Error('The document must be OpenAPI 3.1.');
			const document = made.openapiObject as OpenAPIV3_1.Document;
			for (const path of Object.values(document.paths ?? {})) {
				for (const operation of [path?.get, path?.post]) if (operation) complete(operation, operations);
			}
			return document as ReturnType<NonNullable<FastifyDynamicSwaggerOptions['transformObject']>>;
		},
	};
}

function complete(operation: OpenAPIV3_1.OperationObject, references: Map<string, OperationReference>): void {
	const reference = references.get(String(operation.operationId));
	if (reference === undefined) return;
	operation.responses = Object.fromEntries(Object.entries(reference.responses));
	const { bodyExamples, parameters = [] } = reference;
	for (const parameter of operation.parameters ?? []) moveExample(parameter as OpenAPIV3_1.ParameterObject);
	if (parameters.length > 0) operation.parameters = [...(operation.parameters ?? []), ...parameters];
	if (bodyExamples === undefined || operation.requestBody === undefined || '$ref' in operation.requestBody) return;
	operation.requestBody.required = true;
	for (const media of Object.values(operation.requestBody.content)) media.examples = bodyExamples;
}

/** Moves the example into the schema. Tools treat an example beside the schema as a value to send. */
function moveExample(parameter: OpenAPIV3_1.ParameterObject): void {
	const { example, schema } = parameter;
	if (example === undefined || schema === undefined) return;
	Object.assign(schema, { examples: [example as unknown] });
	delete parameter.example;
}

/** The formats of this product in standard terms that other programs know. */
const standardFormats: Record<string, Record<string, unknown>> = {
	'stored-text': {},
	'calendar-date': { format: 'date' },
	timestamp: { format: 'date-time' },
	'decimal-id': {
		pattern: '^[1-9][0-9]{0,18}$',
		'x-allowed': 'A positive integer in decimal digits, at most 9223372036854775807.',
	},
	'page-limit': { pattern: '^([1-9][0-9]{0,2}|1000)$', 'x-allowed': 'An integer from 1 to 1000 in decimal digits.' },
};

/** A copy of a schema with these formats in standard terms. */
function inStandardFormats(value: unknown): unknown {
	if (Array.isArray(value)) return value.map(inStandardFormats);
	if (typeof value !== 'object' || value === null) return value;
	const entries = Object.entries(value).flatMap(([name, each]) => {
		const known = name === 'format' && typeof each === 'string' ? standardFormats[each] : undefined;
		return known === undefined ? [[name, inStandardFormats(each)]] : Object.entries(known);
	});
	return Object.fromEntries(entries) as unknown;
}

/**
 * The schema of a response, as it is published: plain JSON Schema without TypeBox's internal properties. It allows further
 * properties, so that a client that validates responses survives a new field.
 */
export function plain(schema: object): OpenAPIV3_1.SchemaObject {
	return JSON.parse(
		JSON.stringify(schema, (name, value: unknown) => (name === 'additionalProperties' ? undefined : value)),
	) as OpenAPIV3_1.SchemaObject;
}
