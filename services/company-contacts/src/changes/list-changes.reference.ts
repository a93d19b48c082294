import type { OperationReference } from '@contacts/common/api-reference/operation.js';
import { problemResponse } from '@contacts/common/api-reference/problem-responses.js';
import { maxSafeInteger } from '@contacts/common/schemas/fields.js';
import { Type } from '@sinclair/typebox';
import { example } from '../list-company-contacts.reference.js';
import {
	contentEncoding,
	ifNoneMatch,
	invalidQuery,
	publicProblems,
	representationHeaders,
	withLimits,
} from '../public-endpoint.reference.js';
import { maxChanges } from './changes.sql.js';

const id = { minimum: 1, maximum: maxSafeInteger };

export const CompanyContactChangesSchema = Type.Object(
	{
		changes: Type.Array(
			Type.Union([
				Type.Object(
					{
						deleted: Type.Literal(false),
						contact: Type.Unsafe<unknown>({ $ref: '#/components/schemas/CompanyContact' }),
					},
					{ additionalProperties: false, description: 'A contact that is new or has changed, as it is now.' },
				),
				Type.Object(
					{
						deleted: Type.Literal(true),
						contact: Type.Object(
							{ id: Type.Integer(id), bitrix_id: Type.Integer(id) },
							{ additionalProperties: false, description: 'Its record ID and its ID in the CRM, as they were.' },
						),
					},
					{ additionalProperties: false, description: 'A contact that was deleted. You may never have seen it.' },
				),
			]),
			{ maxItems: maxChanges, description: 'In the order of the changes, each contact at most once.' },
		),
		cursor: Type.String({
			description: 'For the next request. Store it with your copy; it is one opaque string.',
			pattern: '^[A-Za-z0-9_-]+$',
		}),
		has_more: Type.Boolean({ description: 'Whether there are more changes: send the next request at once.' }),
	},
	{ additionalProperties: false },
);

const cursor = 'BpVTltoRSvyvZdR_e2WKswAAAAAAAAAqAB____________8AAAAAAAAAAAAAAAAAAAAqdTp3rSA';

/** `GET /api/company_contacts.changes` in the API reference. */
export const changesReference: OperationReference = {
	summary: 'List changes of company contacts',
	description: [
		'Returns what has changed since a cursor, including deletions, for clients that keep a copy of all contacts.',
		'Without `cursor` it starts from an empty copy: following it until `has_more` is false returns every contact once, in pages.',
		'Applied in order to a map by `id`, the changes produce exactly what `company_contacts.list` returns. No change is skipped.',
		'A cursor works for at least 30 days. A request takes a token from the same bucket as the list.',
	].join('\n'),
	parameters: [ifNoneMatch('response')],
	responses: {
		200: {
			description: 'Changes, or none. The body is compressed (Brotli or gzip) for a client that accepts it.',
			headers: { ...representationHeaders, 'Content-Encoding': contentEncoding },
			content: {
				'application/json': {
					schema: { $ref: '#/components/schemas/CompanyContactChanges' },
					examples: {
						some: {
							summary: 'A contact that has changed, and one that was deleted',
							value: {
								changes: [
									{ deleted: false, contact: example({}) },
									{ deleted: true, contact: { id: 4, bitrix_id: 1008 } },
								],
								cursor,
								has_more: false,
							},
						},
						none: { summary: 'Nothing new', value: { changes: [], cursor, has_more: false } },
					},
				},
			},
		},
		304: {
			description: 'The response is the same as the one whose `ETag` was sent as `If-None-Match`. There is no body.',
			headers: representationHeaders,
		},
		...publicProblems,
		400: invalidQuery(
			'`cursor` was never issued, or `limit` is not an integer from 1 to 1000, or one of them is given twice',
			{
				cursor: 'must be the cursor of an earlier response',
				limit: 'must be an integer from 1 to 1000 in decimal digits',
			},
		),
		410: withLimits(
			problemResponse(
				'`cursor_expired`: the cursor is older than 30 days, or from before the data was restored or moved. Start again without a ' +
					'cursor: your copy may contain contacts that no longer exist.',
				{ cursor_expired: { code: 'cursor_expired', summary: 'A cursor that is too old' } },
			),
		),
	},
};
