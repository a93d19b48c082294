import { negotiateEncoding, sendRepresentation } from '@contacts/common/http/representations.js';
import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { maxPageLimit, maxSafeInteger } from '@contacts/common/schemas/fields.js';
import { Type } from '@sinclair/typebox';
import fp from 'fastify-plugin';
import { CompanyContact, exampleContact, notModified } from '../company-contact.js';
import type { ChangeFeed } from './change-feed.js';

const querystring = endpointQuery({
	cursor: Type.Optional(
		Type.String({
			description: 'The `cursor` of an earlier response. Without it, the response starts with the first contact.',
		}),
	),
	limit: Type.Optional(
		Type.String({
			format: 'page-limit',
			description: `Maximum number of changes in a response, 1 to ${maxPageLimit}. Default: ${maxPageLimit}.`,
		}),
	),
});

const id = { minimum: 1, maximum: maxSafeInteger };
const exampleCursor = 'BpVTltoRSvyvZdR_e2WKswAAAAAAAAAqAB____________8AAAAAAAAAAAAAAAAAAAAqdTp3rSA';

const CompanyContactChanges = Type.Object(
	{
		changes: Type.Array(
			Type.Union([
				Type.Object(
					{ deleted: Type.Literal(false), contact: CompanyContact },
					{ description: 'A contact that is new or has changed, as it is now.' },
				),
				Type.Object(
					{
						deleted: Type.Literal(true),
						contact: Type.Object(
							{ id: Type.Integer(id), bitrix_id: Type.Integer(id) },
							{ description: 'Its record ID and its ID in the CRM, as they were.' },
						),
					},
					{ description: 'A contact that was deleted. You may never have seen it.' },
				),
			]),
			{ maxItems: maxPageLimit, description: 'In the order of the changes, each contact at most once.' },
		),
		cursor: Type.String({
			description: 'For the next request. Store it with your copy; it is one opaque string.',
			pattern: '^[A-Za-z0-9_-]+$',
		}),
		has_more: Type.Boolean({ description: 'Whether there are more changes: send the next request at once.' }),
	},
	{
		$id: 'CompanyContactChanges',
		description: 'Changes, or none. The body is compressed (Brotli or gzip) for a client that accepts it.',
	},
);

const examples = {
	response: {
		some: {
			summary: 'A contact that has changed, and one that was deleted',
			value: {
				changes: [
					{ deleted: false, contact: exampleContact },
					{ deleted: true, contact: { id: 4, bitrix_id: 1008 } },
				],
				cursor: exampleCursor,
				has_more: false,
			},
		},
		none: { summary: 'Nothing new', value: { changes: [], cursor: exampleCursor, has_more: false } },
	},
};

const description = `
Returns what has changed since a cursor, including deletions, for clients that keep a copy of all contacts. Without \`cursor\` it starts
from an empty copy: following it until \`has_more\` is false returns every contact once, in pages. Applied in order to a map by \`id\`, the
changes produce exactly what \`company_contacts.list\` returns. No change is skipped.

A cursor works for at least 30 days. A request takes a token from the same bucket as the list.
`.trim();

async function route(api: Server, { feed }: { feed: ChangeFeed }): Promise<void> {
	api.route({
		method: 'GET',
		url: '/api/company_contacts.changes',
		schema: {
			operationId: 'company_contacts.changes',
			summary: 'List changes of company contacts',
			description,
			querystring,
			response: { 200: CompanyContactChanges, 304: notModified },
		},
		config: { examples, problems: ['cursor_expired'] },
		// Not async: most requests find nothing new, and that needs no promise.
		handler(request, reply) {
			const { state } = request;
			const { cursor } = request.query;
			const limit = Number(request.query.limit ?? maxPageLimit);
			const encoding = negotiateEncoding(request);
			const kept = feed.find(cursor, limit, state);
			const known = kept?.get(encoding);
			if (known !== undefined && !(known instanceof Promise)) {
				sendRepresentation(request, reply, known);
				return;
			}
			return (async () => {
				const response = kept ?? (await feed.read(cursor, limit, state, request.deadline));
				sendRepresentation(request, reply, await response.get(encoding));
				return reply;
			})();
		},
	});
}

/** `GET /api/company_contacts.changes`: the changes since a cursor. Each contact appears once, in the order of the changes. */
export const listChanges = fp(route, {
	name: 'company_contacts.changes',
	fastify: '5.x',
	encapsulate: true,
	dependencies: ['sandbox'],
});
