import { maxSafeInteger } from '@contacts/common/schemas/fields.js';
import { type Static, type TSchema, Type } from '@sinclair/typebox';

const nullable = <Schema extends TSchema>(schema: Schema, options: { description: string; examples: unknown[] }) =>
	Type.Unsafe<Static<Schema> | null>({ ...schema, type: [schema.type as string, 'null'], ...options });

/** An element of the list, as it is documented: PostgreSQL writes the JSON. */
export const CompanyContact = Type.Object(
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
		$id: 'CompanyContact',
		description: 'A contact of a company. All fields are always present. New ones may be added.',
	},
);

export type CompanyContact = Static<typeof CompanyContact>;

export const exampleContact = {
	id: 3,
	bitrix_id: 1007,
	phone: '+12025550103',
	company_ids: '11',
	name: 'Chen Wei',
	assigned_by_id: 6,
	trouble_contact: null,
	perplexity_reason: null,
};

export const exampleTroubleContact = {
	id: 5,
	bitrix_id: 1009,
	phone: '+12025550105',
	company_ids: '1,11,21',
	name: 'Emil "Em" O’Neill',
	assigned_by_id: 7,
	trouble_contact: 'true',
	perplexity_reason: 'Asks for a call back, never answers',
};

export const notModified = Type.Null({
	description:
		'The body has not changed since the response whose `ETag` was sent as `If-None-Match`. There is no body.',
});
