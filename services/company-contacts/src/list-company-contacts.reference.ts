import { type Headers, header } from '@contacts/common/api-reference/headers.js';
import type { OperationReference } from '@contacts/common/api-reference/operation.js';
import { maxSafeInteger } from '@contacts/common/schemas/fields.js';
import { type TSchema, Type } from '@sinclair/typebox';
import {
	contentEncoding,
	ifNoneMatch,
	invalidQuery,
	publicProblems,
	representationHeaders,
} from './public-endpoint.reference.js';

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
			description: 'The string `true` if the contact is a problem, otherwise null.',
			examples: [null],
		}),
		perplexity_reason: nullable(Type.String(), {
			description: 'Why the contact is a problem.',
			examples: ['Asks for a call back, never answers'],
		}),
	},
	{
		additionalProperties: false,
		description: 'A contact of a company. All eight fields are always present. New ones may be added.',
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

const listHeaders: Headers = {
	...representationHeaders,
	'Contacts-Synced-At': header(
		'When the mirror was last found equal to the CRM (RFC 3339). It distinguishes an old list from one that is merely unchanged. Absent where nothing is mirrored.',
		'2025-11-04T09:30:00.000Z',
		{ type: 'string', format: 'date-time' },
		false,
	),
};

export const example = (fields: object) => ({
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

/** `GET /api/company_contacts.list` in the API reference. */
export const listReference: OperationReference = {
	summary: 'List company contacts',
	description: [
		'Returns all contacts. With `company_id` it returns exactly those linked to that company: 1 finds `"1"` and `"7,1"`, never `"11"`.',
		'They are ordered by `id`. All projects see the same contacts: a project identifies the client; it does not own the data. A sandbox',
		'project sees only invented contacts.',
		'For a company without contacts the list is empty. The response is the whole list; there are no pages.',
		'An unknown parameter gets a 400, so a misspelt `company_id` does not list everybody.',
	].join('\n'),
	parameters: [ifNoneMatch('list')],
	responses: {
		200: {
			description: 'The list. It is compressed (Brotli or gzip) for a client that accepts it.',
			headers: {
				...listHeaders,
				'Content-Encoding': contentEncoding,
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
				'The list has not changed since the response whose `ETag` was sent as `If-None-Match`. There is no body.',
			headers: listHeaders,
		},
		...publicProblems,
		400: invalidQuery(
			'`company_id` is not a positive integer in plain decimal digits (empty, `0`, `-1`, `1.5`, `1e3`, `0x10`, `+5`, a leading zero, ' +
				'white space, above 9223372036854775807) or is given twice',
			{ company_id: 'must be a positive integer in decimal digits, at most 9223372036854775807' },
		),
	},
};
