import { Ajv2020 } from 'ajv/dist/2020.js';
import type { OpenAPIV3_1 } from 'openapi-types';
import { expect } from 'vitest';

/** An operation of a document, to check responses against. */
export interface Documented {
	/** Expects that the document describes this response: its status, media type, code and body, and the headers that it has. */
	expect(response: Response): Promise<void>;
	/** Expects that the examples match the schemas. */
	expectExamples(): void;
	/** The statuses that the document describes, with the code of an error, and that no expected response had. */
	unseen(): string[];
}

type Content = Record<string, OpenAPIV3_1.MediaTypeObject>;

const examplesOf = (content: Content = {}) =>
	Object.values(content).flatMap(({ schema = {}, examples = {} }) =>
		Object.values(examples).map((example) => ({ schema, value: (example as OpenAPIV3_1.ExampleObject).value })),
	);

const outcomeOf = (status: number | string, body: unknown) =>
	[status, (body as { code?: string } | undefined)?.code].filter(Boolean).join(' ');

/** @param path of the operation; each path has one */
export function documented(document: OpenAPIV3_1.Document, path: string): Documented {
	const ajv = new Ajv2020({ strict: false, allErrors: true, formats: { date: true, 'date-time': true } });
	ajv.addSchema(withoutFurtherProperties(document), 'document');
	const operation = (document.paths?.[path]?.get ?? document.paths?.[path]?.post) as OpenAPIV3_1.OperationObject;
	const responses = operation.responses as Record<string, OpenAPIV3_1.ResponseObject>;
	const described = Object.entries(responses).flatMap(([status, { content }]) =>
		content === undefined ? [status] : examplesOf(content).map(({ value }) => outcomeOf(status, value)),
	);
	const seen = new Set<string>();

	function expectValid(schema: object, value: unknown): void {
		const validate = ajv.compile(withRoot(schema));
		validate(value);
		expect(validate.errors ?? []).toEqual([]);
	}

	return {
		async expect(response) {
			const { headers = {}, content = {} } = responses[response.status] ?? {};
			for (const name of Object.keys(headers)) {
				const value = response.headers.get(name);
				const header = document.components?.headers?.[name] as OpenAPIV3_1.HeaderObject | undefined;
				const schema = header?.schema as OpenAPIV3_1.SchemaObject;
				if (value !== null) expectValid(schema, schema.type === 'integer' ? Number(value) : value);
			}
			const text = await response.text();
			const body = text === '' ? undefined : JSON.parse(text);
			const outcome = outcomeOf(response.status, body);
			expect(described).toContain(outcome);
			seen.add(outcome);
			const [[type, { schema = {} }] = ['', {}]] = Object.entries(content);
			expect(response.headers.get('content-type')?.split(';')[0] ?? '').toBe(type);
			if (body !== undefined) expectValid(schema, body);
		},
		expectExamples() {
			const { content = {} } = (operation.requestBody ?? {}) as OpenAPIV3_1.RequestBodyObject;
			const all = [content, ...Object.values(responses).map((response) => response.content)].flatMap(examplesOf);
			expect(all.length).toBeGreaterThan(10);
			for (const { schema, value } of all) expectValid(schema, value);
		},
		unseen: () => [...new Set(described)].filter((outcome) => !seen.has(outcome)).sort(),
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
