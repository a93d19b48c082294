import { negotiateEncoding, sendRepresentation } from '@contacts/common/http/representations.js';
import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { Type } from '@sinclair/typebox';
import type { ChangeFeed } from './change-feed.js';
import { maxChanges } from './changes.sql.js';
import { changesReference } from './list-changes.reference.js';

const querystring = endpointQuery({
	cursor: Type.Optional(
		Type.String({
			description: 'The `cursor` of an earlier response. Without it, the response starts with the first contact.',
		}),
	),
	limit: Type.Optional(
		Type.String({
			format: 'page-limit',
			description: 'Maximum number of changes in a response, 1 to 1000. Default: 1000.',
			examples: ['100'],
		}),
	),
});

/** `GET /api/company_contacts.changes`: the changes since a cursor. Each contact appears once, in the order of the changes. */
export async function listChanges(api: Server, { feed }: { feed: ChangeFeed }): Promise<void> {
	api.route({
		method: 'GET',
		url: '/api/company_contacts.changes',
		schema: { operationId: 'company_contacts.changes', querystring },
		config: { reference: changesReference },
		// Not async: most requests find nothing new, and that needs no promise.
		handler(request, reply) {
			const { cursor } = request.query;
			const limit = Number(request.query.limit ?? maxChanges);
			const encoding = negotiateEncoding(request);
			const known = feed.find(cursor, limit)?.get(encoding);
			if (known !== undefined && !(known instanceof Promise)) {
				sendRepresentation(request, reply, known);
				return;
			}
			return (async () => {
				const response = await feed.read(cursor, limit, request.askedAt);
				sendRepresentation(request, reply, await response.get(encoding));
				return reply;
			})();
		},
	});
}
