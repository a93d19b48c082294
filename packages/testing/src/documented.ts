import { Ajv2020 } from 'ajv/dist/2020.js';
import type { OpenAPIV3_1 } from 'openapi-types';
import { expect } from 'vitest';

/** An operation of a document, to check responses against. */
export interface Documented {
	/** Expects that the document describes this response: its status, media type, code and body, and the headers that it has. */
	expect(response: Response): Promise<void>;
	/** Expects that a value matches a schema of the document. The schema is named by its JSON pointer. */
	expectValid(pointer: string, value: unknown): void;
	/** The statuses in the description of the operation. */
	statuses: number[];
	/** The status and code of every error in the description, as `401 unauthorized`. */
	problems: string[];
}

/** @param path of the operation; each path has one */
export function documented(document: OpenAPIV3_1.Document, path: string): Documented {
	const ajv = new Ajv2020({ strict: false, allErrors: true, formats: { date: true, 'date-time': true } });
	ajv.addSchema(withoutFurtherProperties(document), 'document');
	const operation = document.paths?.[path]?.get ?? document.paths?.[path]?.post;
	const responses = (operation?.responses ?? {}) as Record<string, OpenAPIV3_1.ResponseObject>;
	const examplesOf = (response: OpenAPIV3_1.ResponseObject) =>
		Object.values(response.content?.['application/problem+json']?.examples ?? {}).map(
			(example) => (example as { value: { status: number; code: string } }).value,
		);

	function expectValid(schema: object, value: unknown): void {
		const validate = ajv.compile(withRoot(schema));
		validate(value);
		expect(validate.errors ?? []).toEqual([]);
	}

	return {
		expectValid: (pointer, value) => expectValid({ $ref: pointer }, value),
		statuses: Object.keys(responses).map(Number),
		problems: Object.values(responses)
			.flatMap(examplesOf)
			.map(({ status, code }) => `${status} ${code}`),
		async expect(actual) {
			const response = responses[actual.status];
			if (response === undefined) throw new Error(`${actual.status} is not described`);
			for (const name of Object.keys(response.headers ?? {})) {
				const value = actual.headers.get(name);
				const header = document.components?.headers?.[name] as OpenAPIV3_1.HeaderObject | undefined;
				const schema = header?.schema as OpenAPIV3_1.SchemaObject;
				if (value !== null) expectValid(schema, schema.type === 'integer' ? Number(value) : value);
			}
			const text = await actual.text();
			const [media] = Object.entries(response.content ?? {});
			if (media === undefined) {
				expect(text).toBe('');
				return;
			}
			const [type, { schema = {} }] = media;
			expect(actual.headers.get('content-type')?.split(';')[0]).toBe(type);
			const body = JSON.parse(text) as { code?: string };
			expectValid(schema, body);
			if (body.code !== undefined) expect(examplesOf(response).map(({ code }) => code)).toContain(body.code);
		},
	};
}

/**
 * A copy of the document whose schemas allow only the described properties. The document itself allows others, for later
 * versions, but a response of this version has none.
 */
function withoutFurtherProperties(document: OpenAPIV3_1.Document): object {
	return JSON.parse(
		JSON.stringify(document, (_, value: unknown) =>
			typeof value === 'object' && value !== null && 'properties' in value
				? { additionalProperties: false, ...value }
				: value,
		),
	) as object;
}

/** A schema whose references point into the document. */
function withRoot(schema: object): object {
	return JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"document#/')) as object;
}

/** Parses a raw HTTP response. */
export function responseOf(text: string): Response {
	const end = text.indexOf('\r\n\r\n');
	const [line = '', ...lines] = text.slice(0, end).split('\r\n');
	const headers = lines.map((each): [string, string] => {
		const colon = each.indexOf(':');
		return [each.slice(0, colon), each.slice(colon + 1).trim()];
	});
	return new Response(text.slice(end + 4), { status: Number(line.split(' ')[1]), headers });
}
