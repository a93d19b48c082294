import { Problem } from '@contacts/common/http/problems.js';
import {
	createRepresentations,
	negotiateEncoding,
	type Representations,
	sendRepresentation,
} from '@contacts/common/http/representations.js';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { maxChanges } from '../changes/changes.sql.js';
import { invalidCursor } from '../changes/feed-cursor.js';
import { firstContacts, laterChanges, type SandboxContact } from './contacts.js';

interface Query {
	company_id?: string;
	cursor?: string;
	limit?: string;
}

/** The response for a sandbox project, by the requested route. */
const bodies: Record<string, (query: Query) => string> = {
	'/api/company_contacts.list': ({ company_id: companyId }) => {
		const data = contacts.filter(
			({ company_ids: ids }) => companyId === undefined || ids?.split(',').includes(companyId),
		);
		return JSON.stringify({ count: data.length, data });
	},
	'/api/company_contacts.changes': ({ cursor, limit = String(maxChanges) }) => {
		const from = cursor === undefined ? 0 : decodeCursor(cursor);
		if (from === undefined) throw invalidCursor();
		const page = pageFrom(from, Number(limit));
		const next = from + page.length;
		return JSON.stringify({ changes: page, cursor: encodeCursor(next), has_more: next < changes.length });
	},
};

/**
 * Responds to the requests of sandbox projects with invented contacts, after authentication, rate limit and validation. No
 * route of this scope ever runs for them. So they never see real data, and nothing they send reaches other projects.
 */
export const sandbox = fp(
	async (scope) => {
		/** Equal bodies share one response. */
		const made = new Map<string, Representations>();

		async function respond(request: FastifyRequest, reply: FastifyReply): Promise<void> {
			const body = bodies[request.routeOptions.url ?? ''];
			if (body === undefined) throw new Problem('not_found');
			const text = body(request.query as Query);
			const representations = made.get(text) ?? createRepresentations(Buffer.from(text));
			made.set(text, representations);
			sendRepresentation(request, reply, await representations.get(negotiateEncoding(request)));
		}

		scope.addHook('preHandler', (request, reply, done) => {
			if (request.project.isSandbox) respond(request, reply).catch(done);
			else done();
		});
	},
	{ name: 'sandbox', fastify: '5.x', dependencies: ['limit-projects'] },
);

const changes = [...firstContacts, ...laterChanges];

/** The list after all changes. */
const contacts = [...new Map(changes.map((change) => [change.contact.id, change])).values()]
	.flatMap((change): SandboxContact[] => (change.deleted ? [] : [change.contact]))
	.sort((one, other) => one.id - other.id);

/** Returns the next changes, each contact at most once. The first pages build the copy; later pages are changes to it. */
function pageFrom(from: number, limit: number) {
	const end = from < firstContacts.length ? firstContacts.length : changes.length;
	const page = changes.slice(from, Math.min(end, from + limit));
	const again = page.findIndex(({ contact }, index) =>
		page.slice(0, index).some((each) => each.contact.id === contact.id),
	);
	return again === -1 ? page : page.slice(0, again);
}

/** Never a valid cursor of the real feed, which is longer and has a checksum. */
const encodeCursor = (position: number) => Buffer.from(`sandbox ${position}`).toString('base64url');

/** @returns undefined for a text that `encodeCursor` has not produced */
function decodeCursor(text: string): number | undefined {
	const position = Number(/^sandbox (\d{1,3})$/.exec(Buffer.from(text, 'base64url').toString())?.[1]);
	return position <= changes.length && encodeCursor(position) === text ? position : undefined;
}
