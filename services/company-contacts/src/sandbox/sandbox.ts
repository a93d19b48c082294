import { Problem } from '@contacts/common/http/problems.js';
import { createRepresentations, negotiateEncoding, sendRepresentation } from '@contacts/common/http/representations.js';
import { maxPageLimit } from '@contacts/common/schemas/fields.js';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { invalidCursor } from '../changes/feed-cursor.js';
import { firstContacts, laterChanges } from './contacts.js';

interface Query {
	company_id?: string;
	cursor?: string;
	limit?: string;
}

const changes = [...firstContacts, ...laterChanges];

/** The list after all changes. */
const contacts = [...new Map(changes.map((change) => [change.contact.id, change])).values()]
	.flatMap((change) => (change.deleted ? [] : [change.contact]))
	.sort((one, other) => one.id - other.id);

/** A cursor is a number of changes. It is never one of the real feed, which is longer and has a checksum. */
const encodeCursor = (position: number) => Buffer.from(`sandbox ${position}`).toString('base64url');
const positions = new Map(changes.map((_, index) => [encodeCursor(index + 1), index + 1]));

/** The body for a sandbox project, by the requested route. */
const bodies: Record<string, (query: Query) => object> = {
	'/api/company_contacts.list': ({ company_id: companyId }) => {
		const data = contacts.filter(
			({ company_ids: ids }) => companyId === undefined || ids?.split(',').includes(companyId),
		);
		return { count: data.length, data };
	},
	'/api/company_contacts.changes': ({ cursor, limit = maxPageLimit }) => {
		const from = cursor === undefined ? 0 : positions.get(cursor);
		if (from === undefined) throw invalidCursor();
		// The first pages build the copy, later ones change it. So no response has a contact twice.
		const end = from < firstContacts.length ? firstContacts.length : changes.length;
		const next = Math.min(end, from + Number(limit));
		return { changes: changes.slice(from, next), cursor: encodeCursor(next), has_more: next < changes.length };
	},
};

async function respond(request: FastifyRequest, reply: FastifyReply): Promise<void> {
	const body = bodies[request.routeOptions.url ?? ''];
	if (body === undefined) throw new Problem('not_found');
	const representations = createRepresentations(Buffer.from(JSON.stringify(body(request.query as Query))));
	sendRepresentation(request, reply, await representations.get(negotiateEncoding(request)));
}

/**
 * Responds to the requests of sandbox projects with invented contacts, after authentication, rate limit and validation. No
 * route of this scope ever runs for them. So they never see real data, and nothing they send reaches other projects.
 */
export const sandbox = fp(
	async (scope) => {
		scope.addHook('preHandler', (request, reply, done) => {
			if (request.project.isSandbox) respond(request, reply).catch(done);
			else done();
		});
	},
	{ name: 'sandbox', fastify: '5.x', dependencies: ['limit-projects'] },
);
