import type { Database } from '@contacts/common/database/database.js';
import { credentials } from '@contacts/common/schemas/credentials.js';
import { decimalId } from '@contacts/common/schemas/fields.js';
import type { Server } from '@contacts/common/server.js';
import { Type } from '@sinclair/typebox';
import { readCompanyContacts } from './company-contacts.sql.js';
import { createLastSync } from './crm-age.js';
import { matchesEntityTag, prepareAnswer } from './prepared-answer.js';

const querystring = Type.Object({
	...credentials,
	company_id: Type.Optional(
		decimalId({ description: 'Only the contacts that are linked to this company of the CRM.', examples: ['1'] }),
	),
});

export interface ListOptions {
	database: Database;
	/** Milliseconds that never go back. */
	clock: () => number;
}

/** `GET /api/company_contacts.list`: all contacts, or exactly those of one company, ordered by id. */
export async function listCompanyContacts(api: Server, { database, clock }: ListOptions): Promise<void> {
	const lastSync = createLastSync(database, clock);
	api.route({
		method: 'GET',
		url: '/api/company_contacts.list',
		schema: { operationId: 'company_contacts.list', querystring },
		async handler(request, reply) {
			const [contacts, syncedAt] = await Promise.all([
				readCompanyContacts(database, request.query.company_id),
				lastSync(),
			]);
			const answer = prepareAnswer(contacts);
			reply.headers({ 'cache-control': 'private, no-cache', etag: answer.entityTag });
			// When the list was last found equal to the CRM; whether it has changed since is for the entity tag to tell.
			if (syncedAt !== null) reply.header('last-modified', new Date(syncedAt).toUTCString());
			if (matchesEntityTag(request.headers['if-none-match'], answer.entityTag)) return reply.code(304).send();
			return reply.type('application/json; charset=utf-8').send(answer.body);
		},
	});
}
