import { commonHeaders, type Headers, header, shared } from '@contacts/common/api-reference/headers.js';
import { commonProblems, problemResponse } from '@contacts/common/api-reference/problem-responses.js';
import type { OpenAPIV3_1 } from 'openapi-types';

const limitNumber = { type: 'integer', minimum: 0 } as const;

/** The headers of the rate limit, described once as components of the document. */
export const limitHeaders = {
	'RateLimit-Limit': header('The size of the bucket.', 250, limitNumber),
	'RateLimit-Remaining': header('Tokens left.', 249, limitNumber),
	'RateLimit-Reset': header('Seconds until the bucket is full, or on a 429 until the next token.', 1, limitNumber),
};

/** References to them, for a response that always has them or only if it passed the limit. */
function limits(always: boolean): Headers {
	return Object.fromEntries(
		Object.entries(limitHeaders).map(([name, described]) => [
			name,
			always ? { $ref: `#/components/headers/${name}` } : { ...described, required: false },
		]),
	);
}

/** Headers of a successful response and of a 304. */
export const representationHeaders: Headers = {
	...commonHeaders,
	'Cache-Control': header(
		'For your own cache only. Revalidate it with `If-None-Match` before each use.',
		'private, no-cache',
		{
			type: 'string',
			enum: ['private, no-cache'],
		},
	),
	ETag: header(
		'Identifies this body in this encoding. Send it back as `If-None-Match`.',
		'"4rE2kJ0bqv9nW1mXy7cTzL3hSdA"',
		{
			type: 'string',
			pattern: '^"[^"]+"$',
		},
	),
	Vary: header('The response depends on the encodings that the client accepts.', 'Accept-Encoding', {
		type: 'string',
		enum: ['Accept-Encoding'],
	}),
	...limits(true),
};

export const contentEncoding = header(
	'Present if the body is compressed.',
	'br',
	{ type: 'string', enum: ['br', 'gzip'] },
	false,
);

const problems = commonProblems('GET');

/** With the headers of the rate limit, if the response passed the limit. */
export function withLimits(response: OpenAPIV3_1.ResponseObject): OpenAPIV3_1.ResponseObject {
	return { ...response, headers: { ...response.headers, ...limits(false) } };
}

/** The errors that both public endpoints share. */
export const publicProblems = {
	...problems,
	413: problemResponse('`payload_too_large`: the request has a body that is larger than 1 KiB. The gateway sends it.', {
		payload_too_large: { code: 'payload_too_large', summary: 'A body that is too large' },
	}),
	429: problemResponse(
		"`rate_limited`: the project's bucket is empty. Wait for `Retry-After`; the refused request took no token. The same, without " +
			'the headers of the limit, is sent to an address with too many failed authentications or too many open connections.',
		{ rate_limited: { code: 'rate_limited', summary: 'The bucket is empty' } },
		{ 'Retry-After': shared('Retry-After'), ...limits(false) },
	),
	431: {
		...problems[431],
		description:
			'`payload_too_large`: URL and headers are larger than 16 KiB. The gateway also sends it for a URL or a header of more than 8 KiB.',
	},
	500: withLimits(problems[500]),
	503: withLimits(problems[503]),
} satisfies Record<number, OpenAPIV3_1.ResponseObject>;

/**
 * @param wrong the description for an invalid parameter of this endpoint
 * @param messages the messages for it, by parameter
 */
export function invalidQuery(wrong: string, messages: Record<string, string>): OpenAPIV3_1.ResponseObject {
	const allowed = ['project', 'api_key', ...Object.keys(messages)].join(', ');
	return problemResponse(
		`\`invalid_query\`: ${wrong}; or a parameter is unknown; or the URL or the request itself is malformed. This response ` +
			'may be sent before the limit is checked, without its headers.',
		{
			...Object.fromEntries(
				Object.entries(messages).map(([field, message]) => [
					field,
					{ code: 'invalid_query' as const, summary: `An invalid ${field}`, errors: [{ field, message }] },
				]),
			),
			unknown_parameter: {
				code: 'invalid_query',
				summary: 'An unknown parameter',
				errors: [{ field: 'query', message: `must hold no parameters but ${allowed}` }],
			},
			malformed: { code: 'invalid_query', summary: 'A malformed URL or request' },
		},
		limits(false),
	);
}

export const ifNoneMatch = (what: string): OpenAPIV3_1.ParameterObject => ({
	in: 'header',
	name: 'If-None-Match',
	required: false,
	description: `The \`ETag\` of the ${what} that you have: while it is unchanged, the response is an empty 304.`,
	schema: { type: 'string' },
});
