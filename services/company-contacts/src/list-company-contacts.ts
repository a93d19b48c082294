import type { Database } from '@contacts/common/database/database.js';
import { credentials } from '@contacts/common/schemas/credentials.js';
import { decimalId } from '@contacts/common/schemas/fields.js';
import type { Server } from '@contacts/common/server.js';
import { Type } from '@sinclair/typebox';
import { readCompanyContacts } from './company-contacts.sql.js';
import { matchesEntityTag, prepareAnswer } from './prepared-answer.js';

const querystring = Type.Object({
	...credentials,
	company_id: Type.Optional(
		decimalId({ description: 'Only the contacts that are linked to this company of the CRM.', examples: ['1'] }),
	),
});

/** `GET /api/company_contacts.list`: all contacts, or exactly those of one company, ordered by id. */
export async function listCompanyContacts(api: Server, { database }: { database: Database }): Promise<void> {
	api.route({
		method: 'GET',
		url: '/api/company_contacts.list',
		schema: { operationId: 'company_contacts.list', querystring },
		async handler(request, reply) {
			const contacts = await readCompanyContacts(database, request.query.company_id);
			const answer = prepareAnswer(contacts);
			reply.headers({ 'cache-control': 'private, no-cache', etag: answer.entityTag });
			if (matchesEntityTag(request.headers['if-none-match'], answer.entityTag)) return reply.code(304).send();
			return reply.type('application/json; charset=utf-8').send(answer.body);
		},
	});
}
