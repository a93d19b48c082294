import { createHash, timingSafeEqual } from 'node:crypto';
import type { Database } from '@contacts/common/database/database.js';
import { limitFailures } from '@contacts/common/http/limit-failures.js';
import { Problem, type ProblemCode, sendProblem, toProblem } from '@contacts/common/http/problems.js';
import type { Server } from '@contacts/common/http/server.js';
import type { BucketPolicy } from '@contacts/common/http/token-bucket.js';
import { counter } from '@contacts/common/observability/metrics.js';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Registry } from 'prom-client';
import { positiveInteger } from './bitrix24/contact.js';
import { storeEvent } from './mirror/inbox.sql.js';

const events = new Set(['ONCRMCONTACTADD', 'ONCRMCONTACTUPDATE', 'ONCRMCONTACTDELETE']);

/** Limit of refused requests per client address: the default limit of the list. */
const failurePolicy: BucketPolicy = { perSecond: 5, burst: 250 };

/** What the sender of an event needs to know instead of what the clients of the services need. */
const details: Partial<Record<ProblemCode, string>> = {
	unauthorized: 'The form field "auth[application_token]" must be the application token of the outgoing webhook.',
	unsupported_media_type: 'The body must be sent as application/x-www-form-urlencoded, without a content encoding.',
};

interface WebhookOptions {
	database: Database;
	/** The application token of the CRM's outgoing webhook. */
	token: string;
	registry: Registry;
	/** Monotonic milliseconds. */
	clock: () => number;
}

/**
 * `POST /bitrix24/events`: receives the events of the CRM's outgoing webhook. It stores which contact changed, and responds.
 * The synchroniser then reads the contact again. The CRM sends each event once and in no guaranteed order, so its content is
 * only a hint.
 */
export async function webhook(api: Server, { database, token, registry, clock }: WebhookOptions): Promise<void> {
	const onFailure = limitFailures(failurePolicy, registry, clock);
	const count = counter(
		registry,
		'crm_events_total',
		'Events of the CRM, by whether they were stored, or dropped because the inbox was full: then a full run is due.',
		'outcome',
		['stored', 'dropped'],
	);

	api.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, body, done) => {
		done(null, new URLSearchParams(String(body)));
	});
	/** Every refused request counts, because anybody can send one. A valid event is never limited. */
	function refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
		const problem = toProblem(error);
		// What this throws goes to the server's error handler.
		if (problem.status < 500) onFailure(request);
		problem.detail = details[problem.code] ?? problem.detail;
		sendProblem(problem, request, reply);
	}

	api.post('/bitrix24/events', { errorHandler: refuse }, async (request) => {
		const body = request.body;
		// A request without a body has no media type either.
		if (!(body instanceof URLSearchParams)) throw new Problem('unsupported_media_type');
		if (!sameText(body.get('auth[application_token]') ?? '', token)) {
			throw new Problem('unauthorized', { headers: { 'www-authenticate': 'ApplicationToken realm="events"' } });
		}
		const event = (body.get('event') ?? '').toUpperCase();
		const id = positiveInteger(body.get('data[FIELDS][ID]'));
		if (!events.has(event) || id === undefined) throw new Problem('invalid_body');
		const [{ stored }] = await database.query((sql) => storeEvent(sql, id));
		count(stored ? 'stored' : 'dropped');
		return { ok: true };
	});
}

/** Compares in constant time. */
function sameText(a: string, b: string): boolean {
	const digest = (text: string) => createHash('sha256').update(text).digest();
	return timingSafeEqual(digest(a), digest(b));
}
