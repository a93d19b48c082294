import type { OpenAPIV3_1 } from 'openapi-types';

export type Headers = Record<string, OpenAPIV3_1.HeaderObject | OpenAPIV3_1.ReferenceObject>;

type Schema = NonNullable<OpenAPIV3_1.HeaderObject['schema']>;

/** A header that a response always (required) or sometimes has. */
export function header(description: string, example: string | number, schema: Schema, required = true) {
	return { description, required, schema, example } satisfies OpenAPIV3_1.HeaderObject;
}

const text: Schema = { type: 'string' };
const seconds: Schema = { type: 'integer', minimum: 1 };

/** The headers that are described once, as components of the document. */
export const sharedHeaders = {
	'x-request-id': header(
		'ID of this request, the `request_id` of an error. Quote it when you ask for help.',
		'0b5c8f0e-6c3e-4f0a-9a52-6d0c3c1f7b11',
		text,
	),
	'Referrer-Policy': header('The URL contains the key, so it must not be passed on.', 'no-referrer', {
		type: 'string',
		enum: ['no-referrer'],
	}),
	'X-Content-Type-Options': header('Browsers must not guess another content type.', 'nosniff', {
		type: 'string',
		enum: ['nosniff'],
	}),
	'No-Store': header('This response must not be cached.', 'no-store', { type: 'string', enum: ['no-store'] }),
	'Retry-After': header('Whole seconds to wait before the next attempt.', 1, seconds),
	'Retry-After-Database': header(
		'Whole seconds to wait before the next attempt; with `database_error` only.',
		2,
		seconds,
		false,
	),
	'WWW-Authenticate': header('How to authenticate; the realm is always the same.', 'ApiKey realm="contacts"', {
		type: 'string',
		enum: ['ApiKey realm="contacts"'],
	}),
} as const;

/** A reference to one of these headers. */
export function shared(name: keyof typeof sharedHeaders): OpenAPIV3_1.ReferenceObject {
	return { $ref: `#/components/headers/${name}` };
}

/** The headers of every response, with `Cache-Control` for routes that don't override it. */
export const commonHeaders: Headers = {
	'x-request-id': shared('x-request-id'),
	'Cache-Control': shared('No-Store'),
	'Referrer-Policy': shared('Referrer-Policy'),
	'X-Content-Type-Options': shared('X-Content-Type-Options'),
};
