import { Problem } from '@contacts/common/http/problems.js';
import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { Type } from '@sinclair/typebox';
import { negotiateEncoding, sendRepresentation } from '../representations.js';
import type { ChangeFeed } from './change-feed.js';
import { maxChanges } from './changes.sql.js';
import { decodeCursor } from './cursor.js';
import { changesReference } from './list-changes.reference.js';

const querystring = endpointQuery({
	cursor: Type.Optional(
		Type.String({
			description:
				'The `cursor` of the response before this one. Without it, all contacts follow from the first one on.',
		}),
	),
	limit: Type.Optional(
		Type.String({
			format: 'page-limit',
			description: 'How many changes a response may have, 1 to 1000. Without it, 1000.',
			examples: ['100'],
		}),
	),
});

/** `GET /api/company_contacts.changes`: what has changed since a cursor, each contact once, in the order of the changes. */
export async function listChanges(api: Server, { feed }: { feed: ChangeFeed }): Promise<void> {
	api.route({
		method: 'GET',
		url: '/api/company_contacts.changes',
		schema: { operationId: 'company_contacts.changes', querystring },
		config: { reference: changesReference },
		async handler(request, reply) {
			const { cursor, limit = maxChanges } = request.query;
			const position = cursor === undefined ? undefined : decodeCursor(cursor);
			if (cursor !== undefined && position === undefined) {
				const errors = [{ field: 'cursor', message: 'must be the cursor of an earlier response' }];
				throw new Problem('invalid_query', { errors });
			}
			const response = await feed.read(position, Number(limit));
			sendRepresentation(request, reply, await response.get(negotiateEncoding(request)));
			return reply;
		},
	});
}
