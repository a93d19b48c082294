import { isNotModified, negotiateEncoding, sendRepresentation } from '@contacts/common/http/representations.js';
import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { decimalId } from '@contacts/common/schemas/fields.js';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { CompanyContact, exampleContact, exampleTroubleContact, notModified } from './company-contact.js';
import { type ListCache, syncedAtOf } from './list-cache.js';
import { type StreamSource, streamList, streamTagOf } from './list-stream.js';

const querystring = endpointQuery({
	company_id: Type.Optional(
		// No example: the page would send it with the first request, and the samples would have it.
		decimalId({ description: 'Only the contacts linked to this company in the CRM, such as 7.' }),
	),
});

const CompanyContactList = Type.Object(
	{
		count: Type.Integer({ minimum: 0, description: 'The number of elements in `data`.', examples: [2] }),
		data: Type.Array(CompanyContact, { description: 'Ordered by `id`, ascending.' }),
	},
	{
		$id: 'CompanyContactList',
		description: 'The list. It is compressed (Brotli or gzip) for a client that accepts it.',
	},
);

const examples = {
	response: {
		some: { summary: 'Contacts of company 11', value: { count: 2, data: [exampleContact, exampleTroubleContact] } },
		none: { summary: 'No contacts', value: { count: 0, data: [] } },
	},
};

const description = `
Returns all contacts. With \`company_id\` it returns exactly those linked to that company: 1 finds \`"1"\` and \`"7,1"\`, never \`"11"\`.
They are ordered by \`id\`. The response is the whole list; there are no pages. For a company without contacts the list is empty. All
projects see the same contacts: a project identifies the client; it does not own the data. A sandbox project sees only invented
contacts.

\`company_id\` is written in plain decimal digits, up to 9223372036854775807. An empty value, \`0\`, \`-1\`, \`1.5\`, \`1e3\`, \`0x10\`, \`+5\`,
a leading zero, white space, or the parameter given twice gets a 400. So does an unknown parameter: a misspelt \`company_id\` must not
list everybody.
`.trim();

interface ListOptions extends StreamSource {
	cache: ListCache;
}

async function route(api: Server, { cache, ...source }: ListOptions): Promise<void> {
	function send(
		request: FastifyRequest,
		reply: FastifyReply,
		representation: Parameters<typeof sendRepresentation>[2],
		syncedAt: number | null,
	): FastifyReply {
		if (syncedAt !== null) reply.header('contacts-synced-at', new Date(syncedAt).toISOString());
		sendRepresentation(request, reply, representation);
		return reply;
	}

	api.route({
		method: 'GET',
		url: '/api/company_contacts.list',
		schema: {
			operationId: 'company_contacts.list',
			summary: 'List company contacts',
			description,
			querystring,
			response: { 200: CompanyContactList, 304: notModified },
		},
		config: { examples },
		// Not async: a promise costs time in every request, and a list in memory needs none.
		handler(request, reply) {
			const { state } = request;
			const { company_id: companyId } = request.query;
			const encoding = negotiateEncoding(request);
			const cached = cache.find(companyId, state);
			const known = cached?.representations?.get(encoding);
			if (cached !== undefined && known !== undefined && !(known instanceof Promise)) {
				send(request, reply, known, syncedAtOf(cached, state));
				return;
			}
			return (async () => {
				const { project, deadline } = request;
				const list = cached ?? (await cache.read(companyId, state, deadline));
				const { representations } = list;
				if (representations !== undefined)
					return send(request, reply, await representations.get(encoding), syncedAtOf(list, state));
				// Without a stream: a project has few of them, and each counts the contacts first.
				const entityTag = streamTagOf(list, encoding);
				if (isNotModified(request, entityTag))
					return send(request, reply, { encoding, entityTag, body: '' }, syncedAtOf(list, state));
				const stream = await streamList(source, { companyId, encoding, project, deadline });
				return send(request, reply, stream, stream.syncedAt);
			})();
		},
	});
}

/** `GET /api/company_contacts.list`: all contacts, or the contacts of one company, ordered by id. */
export const listCompanyContacts = fp(route, {
	name: 'company_contacts.list',
	fastify: '5.x',
	encapsulate: true,
	dependencies: ['sandbox'],
});
