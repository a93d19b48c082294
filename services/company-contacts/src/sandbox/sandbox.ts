import { Problem } from '@contacts/common/http/problems.js';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import {
	createRepresentations,
	negotiateEncoding,
	type Representations,
	sendRepresentation,
} from '../representations.js';
import { firstContacts, laterChanges, type SandboxContact } from './contacts.js';

/** When the invented contacts last changed. */
const modifiedAt = Date.parse('2026-01-01T00:00:00Z');

const maxChanges = 1000;

interface Query {
	company_id?: string;
	cursor?: string;
	limit?: string;
}

/** What a sandbox project gets, by the route that it asked for. */
const bodies: Record<string, (query: Query) => string> = {
	'/api/company_contacts.list': ({ company_id: companyId }) => {
		const data = contacts.filter(
			({ company_ids: ids }) => companyId === undefined || ids?.split(',').includes(companyId),
		);
		return JSON.stringify({ count: data.length, data });
	},
	'/api/company_contacts.changes': ({ cursor, limit = String(maxChanges) }) => {
		const from = cursor === undefined ? 0 : decodeCursor(cursor);
		if (from === undefined) {
			const errors = [{ field: 'cursor', message: 'must be the cursor of an earlier response' }];
			throw new Problem('invalid_query', { errors });
		}
		const page = pageFrom(from, Number(limit));
		const next = from + page.length;
		return JSON.stringify({ changes: page, cursor: encodeCursor(next), has_more: next < changes.length });
	},
};

/**
 * Answers the requests of sandbox projects, behind their authentication, limit and validation, with invented contacts. No
 * route of this scope is ever run for them: so nothing that a route reads or keeps can get to them, or from them to others.
 */
export const sandbox = fp(async (scope) => {
	/** The responses with the same bytes are one. */
	const made = new Map<string, Representations>();

	async function respond(request: FastifyRequest, reply: FastifyReply): Promise<void> {
		const body = bodies[request.routeOptions.url ?? ''];
		if (body === undefined) throw new Problem('not_found');
		const text = body(request.query as Query);
		const representations = made.get(text) ?? createRepresentations(Buffer.from(text));
		made.set(text, representations);
		const isList = request.routeOptions.url?.endsWith('.list');
		const representation = await representations.get(negotiateEncoding(request));
		sendRepresentation(request, reply, representation, isList ? modifiedAt : undefined);
	}

	scope.addHook('preHandler', (request, reply, done) => {
		if (request.project.isSandbox) respond(request, reply).catch(done);
		else done();
	});
});

const changes = [...firstContacts, ...laterChanges];

/** What the changes come to. */
const contacts = [...new Map(changes.map((change) => [change.contact.id, change])).values()]
	.flatMap((change): SandboxContact[] => (change.deleted ? [] : [change.contact]))
	.sort((one, other) => one.id - other.id);

/** The next changes, each contact at most once; first those that begin a copy, so that what follows is seen as changes. */
function pageFrom(from: number, limit: number) {
	const end = from < firstContacts.length ? firstContacts.length : changes.length;
	const page = changes.slice(from, Math.min(end, from + limit));
	const again = page.findIndex(({ contact }, index) =>
		page.slice(0, index).some((each) => each.contact.id === contact.id),
	);
	return again === -1 ? page : page.slice(0, again);
}

/** No cursor of the real feed: that is longer, and has a checksum. */
const encodeCursor = (position: number) => Buffer.from(`sandbox ${position}`).toString('base64url');

/** @returns undefined for a text that `encodeCursor` has not made */
function decodeCursor(text: string): number | undefined {
	const position = Number(/^sandbox (\d{1,3})$/.exec(Buffer.from(text, 'base64url').toString())?.[1]);
	return position <= changes.length && encodeCursor(position) === text ? position : undefined;
}
