import { Readable } from 'node:stream';
import type { Database } from '@contacts/common/database/database.js';
import { matchesEntityTag } from '@contacts/common/http/entity-tag.js';
import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { decimalId } from '@contacts/common/schemas/fields.js';
import { Type } from '@sinclair/typebox';
import { chooseEncoding } from './encodings.js';
import { listReference } from './list-company-contacts.reference.js';
import type { PreparedAnswers } from './prepared-answers.js';
import { streamAnswer } from './streamed-answer.js';
import { createLastSync } from './sync-freshness.js';

const querystring = endpointQuery({
	company_id: Type.Optional(
		decimalId({ description: 'Only the contacts that are linked to this company of the CRM.', examples: ['1'] }),
	),
});

export interface ListOptions {
	answers: PreparedAnswers;
	database: Database;
	/** Milliseconds that never go back. */
	clock: () => number;
}

/** `GET /api/company_contacts.list`: all contacts, or exactly those of one company, ordered by id. */
export async function listCompanyContacts(api: Server, { answers, database, clock }: ListOptions): Promise<void> {
	const lastSync = createLastSync(database, clock);
	api.route({
		method: 'GET',
		url: '/api/company_contacts.list',
		schema: { operationId: 'company_contacts.list', querystring },
		config: { reference: listReference },
		async handler(request, reply) {
			const companyId = request.query.company_id;
			const [answer, syncedAt] = await Promise.all([answers.get(companyId), lastSync()]);
			const wanted = chooseEncoding(request.headers['accept-encoding']);
			const { body, encoding, entityTag } = answer
				? await answer.variant(wanted)
				: await streamAnswer(database, { companyId, encoding: wanted, projectId: request.project.id, clock });
			reply.headers({ 'cache-control': 'private, no-cache', vary: 'Accept-Encoding', etag: entityTag });
			// When the list was last found equal to the CRM; whether it has changed since is for the entity tag to tell.
			if (syncedAt !== null) reply.header('last-modified', new Date(syncedAt).toUTCString());
			if (matchesEntityTag(request.headers['if-none-match'], entityTag)) {
				if (body instanceof Readable) body.destroy();
				return reply.code(304).send();
			}
			if (encoding !== 'identity') reply.header('content-encoding', encoding);
			return reply.type('application/json; charset=utf-8').send(body);
		},
	});
}
