import { commonHeaders, type Headers, header, shared } from '@contacts/common/api-reference/headers.js';
import type { OperationReference } from '@contacts/common/api-reference/operation.js';
import { commonProblems, problemResponse } from '@contacts/common/api-reference/problem-responses.js';
import { maxSafeInteger } from '@contacts/common/schemas/fields.js';
import { type TSchema, Type } from '@sinclair/typebox';
import type { OpenAPIV3_1 } from 'openapi-types';

const nullable = (schema: TSchema, options: { description: string; examples: unknown[] }) =>
	Type.Unsafe<unknown>({ ...schema, type: [schema.type as string, 'null'], ...options });

/** An element of the list. */
export const CompanyContactSchema = Type.Object(
	{
		id: Type.Integer({
			minimum: 1,
			maximum: maxSafeInteger,
			description: 'ID of the record here. It stays for as long as its `bitrix_id` exists.',
			examples: [3],
		}),
		bitrix_id: Type.Integer({
			minimum: 1,
			maximum: maxSafeInteger,
			description: 'ID of the contact in the CRM.',
			examples: [1007],
		}),
		phone: nullable(Type.String({ pattern: '^\\+[0-9]+$' }), {
			description: 'International format with a leading plus.',
			examples: ['+12025550103'],
		}),
		company_ids: nullable(Type.String({ pattern: '^[1-9][0-9]*(,[1-9][0-9]*)*$' }), {
			description:
				"IDs of the linked companies in the CRM, separated by commas without spaces, in the CRM's order; null when there are none.",
			examples: ['1,11,21'],
		}),
		name: nullable(Type.String(), { description: 'Name of the contact.', examples: ['Chen Wei'] }),
		assigned_by_id: nullable(Type.Integer({ minimum: 1, maximum: maxSafeInteger }), {
			description: 'CRM ID of the employee in charge.',
			examples: [6],
		}),
		trouble_contact: Type.Unsafe<'true' | null>({
			type: ['string', 'null'],
			enum: ['true', null],
			description: 'The text `true` when the contact is a problem, else null.',
			examples: [null],
		}),
		perplexity_reason: nullable(Type.String(), {
			description: 'Why the contact is a problem.',
			examples: ['Asks for a call back, never answers'],
		}),
	},
	{
		additionalProperties: false,
		description: 'A contact of a company: exactly these eight fields, always all of them.',
	},
);

export const CompanyContactListSchema = Type.Object(
	{
		count: Type.Integer({ minimum: 0, description: 'The number of elements in `data`.', examples: [2] }),
		data: Type.Array(Type.Unsafe<unknown>({ $ref: '#/components/schemas/CompanyContact' }), {
			description: 'Ordered by `id`, ascending.',
		}),
	},
	{ additionalProperties: false },
);

const limitNumber = { type: 'integer', minimum: 0 } as const;

/** The headers of the limit, described once: components of the document. */
export const limitHeaders = {
	'RateLimit-Limit': header('The size of the bucket.', 250, limitNumber),
	'RateLimit-Remaining': header('Tokens left.', 249, limitNumber),
	'RateLimit-Reset': header('Seconds until the bucket is full, or on a 429 until the next token.', 1, limitNumber),
};

/** References to them, for an answer that always carries them or only where it came after the limit. */
function limits(always: boolean): Headers {
	return Object.fromEntries(
		Object.entries(limitHeaders).map(([name, described]) => [
			name,
			always ? { $ref: `#/components/headers/${name}` } : { ...described, required: false },
		]),
	);
}

const listHeaders: Headers = {
	...commonHeaders,
	'Cache-Control': header(
		'Keep it for yourself alone, and ask with `If-None-Match` before you use it.',
		'private, no-cache',
		{
			type: 'string',
			enum: ['private, no-cache'],
		},
	),
	ETag: header('Names this list in this encoding. Send it back as `If-None-Match`.', '"4rE2kJ0bqv9nW1mXy7cTzL3hSdA"', {
		type: 'string',
		pattern: '^"[^"]+"$',
	}),
	Vary: header('The body is compressed for a client that takes it.', 'Accept-Encoding', {
		type: 'string',
		enum: ['Accept-Encoding'],
	}),
	'Last-Modified': header(
		'When the list was last found equal to the CRM: by it a stale list can be told from one that is empty or unchanged. ' +
			'Absent before the first synchronisation.',
		'Tue, 04 Nov 2025 09:30:00 GMT',
		{ type: 'string' },
		false,
	),
	...limits(true),
};

const example = (fields: object) => ({
	id: 3,
	bitrix_id: 1007,
	phone: '+12025550103',
	company_ids: '11',
	name: 'Chen Wei',
	assigned_by_id: 6,
	trouble_contact: null,
	perplexity_reason: null,
	...fields,
});

const troubled = example({
	id: 5,
	bitrix_id: 1009,
	phone: '+12025550105',
	company_ids: '1,11,21',
	name: 'Emil "Em" O’Neill',
	assigned_by_id: 7,
	trouble_contact: 'true',
	perplexity_reason: 'Asks for a call back, never answers',
});

const problems = commonProblems('GET');

/** With the headers of the limit, where the answer came after it. */
function withLimits(response: OpenAPIV3_1.ResponseObject): OpenAPIV3_1.ResponseObject {
	return { ...response, headers: { ...response.headers, ...limits(false) } };
}

/** `GET /api/company_contacts.list` in the API reference. */
export const listReference: OperationReference = {
	summary: 'List company contacts',
	description: [
		'All contacts, or with `company_id` exactly those that are linked to this company: 1 finds `"1"` and `"7,1"`, never `"11"`.',
		'They are ordered by `id`. All projects see the same contacts: a project identifies the client, it does not own the data.',
		'A company that has no contacts or does not exist gives an empty list, however large its number. There are no pages: an answer is the whole list.',
		'An unknown parameter is a 400: a misspelt `company_id` must not list everybody.',
	].join('\n'),
	parameters: [
		{
			in: 'header',
			name: 'If-None-Match',
			required: false,
			description: 'The `ETag` of the list that you have: while it is unchanged, the answer is an empty 304.',
			schema: { type: 'string' },
		},
	],
	responses: {
		200: {
			description: 'The list. It is compressed (Brotli or gzip) for a client that takes it.',
			headers: {
				...listHeaders,
				'Content-Encoding': header(
					'Where the body is compressed.',
					'br',
					{ type: 'string', enum: ['br', 'gzip'] },
					false,
				),
			},
			content: {
				'application/json': {
					schema: { $ref: '#/components/schemas/CompanyContactList' },
					examples: {
						some: { summary: 'Contacts of company 11', value: { count: 2, data: [example({}), troubled] } },
						none: { summary: 'No contacts', value: { count: 0, data: [] } },
					},
				},
			},
		},
		304: {
			description:
				'The list has not changed since the answer whose `ETag` was sent as `If-None-Match`. There is no body.',
			headers: listHeaders,
		},
		...problems,
		400: problemResponse(
			'`invalid_query`: `company_id` is no positive integer in plain decimal digits (empty, `0`, `-1`, `1.5`, `1e3`, `0x10`, `+5`, ' +
				'a leading zero, white space, above 9223372036854775807) or is given twice; or a parameter is unknown; or the URL or the ' +
				'request itself is malformed, which may be told before the limit and then without its headers.',
			{
				company_id: {
					code: 'invalid_query',
					summary: 'A wrong company_id',
					errors: [
						{
							field: 'company_id',
							message: 'must be a positive integer in decimal digits, at most 9223372036854775807',
						},
					],
				},
				unknown_parameter: {
					code: 'invalid_query',
					summary: 'An unknown parameter',
					errors: [{ field: '', message: 'must hold no parameters but project, api_key, company_id' }],
				},
				malformed: { code: 'invalid_query', summary: 'A malformed URL or request' },
			},
			limits(false),
		),
		413: problemResponse(
			'`payload_too_large`: the request has a body that is larger than 1 KiB, told by the gateway.',
			{
				payload_too_large: { code: 'payload_too_large', summary: 'A body that is too large' },
			},
		),
		429: problemResponse(
			"`rate_limited`: the project's bucket is empty. Wait for `Retry-After`; the refused request took no token. The same, without " +
				'the headers of the limit, is answered to an address with too many failed authentications or too many open connections.',
			{ rate_limited: { code: 'rate_limited', summary: 'The bucket is empty' } },
			{ 'Retry-After': shared('Retry-After'), ...limits(false) },
		),
		500: withLimits(problems[500]),
		503: withLimits(problems[503]),
	},
};
