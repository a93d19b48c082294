import type { KeyRing } from '@contacts/common/auth/authenticate.js';
import type { Database } from '@contacts/common/database/database.js';
import type { StatePoll } from '@contacts/common/database/state-poll.js';
import {
	entityTagOf,
	isNotModified,
	negotiateEncoding,
	sendRepresentation,
} from '@contacts/common/http/representations.js';
import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { decimalId } from '@contacts/common/schemas/fields.js';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ListCache } from './list-cache.js';
import { listReference } from './list-company-contacts.reference.js';
import { streamList, versionTag } from './list-stream.js';

const querystring = endpointQuery({
	company_id: Type.Optional(
		decimalId({ description: 'Only the contacts linked to this company in the CRM.', examples: ['1'] }),
	),
});

interface ListOptions {
	cache: ListCache;
	database: Database;
	poll: StatePoll;
	keyRing: KeyRing;
}

/** `GET /api/company_contacts.list`: all contacts, or the contacts of one company, ordered by id. */
export async function listCompanyContacts(api: Server, { cache, database, poll, keyRing }: ListOptions): Promise<void> {
	function send(
		request: FastifyRequest,
		reply: FastifyReply,
		representation: Parameters<typeof sendRepresentation>[2],
		syncedAt: number | null,
	): void {
		if (syncedAt !== null) reply.header('contacts-synced-at', new Date(syncedAt).toISOString());
		sendRepresentation(request, reply, representation);
	}

	api.route({
		method: 'GET',
		url: '/api/company_contacts.list',
		schema: { operationId: 'company_contacts.list', querystring },
		config: { reference: listReference },
		// Not async: a promise costs time in every request, and a list in memory needs none.
		handler(request, reply) {
			const companyId = request.query.company_id;
			const encoding = negotiateEncoding(request);
			const cached = cache.find(companyId);
			const known = cached?.representations?.get(encoding);
			if (cached !== undefined && known !== undefined && !(known instanceof Promise)) {
				send(request, reply, known, cached.syncedAt);
				return;
			}
			return (async () => {
				const { askedAt } = request;
				const list = cached ?? (await cache.read(companyId, askedAt));
				if (list.representations !== undefined) {
					send(request, reply, await list.representations.get(encoding), list.syncedAt);
					return reply;
				}
				// Without a stream: a project has few of them, and each counts the contacts first.
				const entityTag = entityTagOf(versionTag(list), encoding);
				if (isNotModified(request, entityTag)) {
					send(request, reply, { encoding, entityTag, body: '' }, list.syncedAt);
				} else {
					const { project } = request;
					const isAuthorized = async () => {
						const now = performance.now();
						if (!keyRing.isConfirmed) await keyRing.confirm(now, now + database.deadlineMs);
						return keyRing.isLive(project);
					};
					const stream = await streamList(database, {
						companyId,
						encoding,
						isAuthorized,
						projectId: project.id,
						askedAt,
						poll,
					});
					send(request, reply, stream, stream.syncedAt);
				}
				return reply;
			})();
		},
	});
}
