import { createHash, timingSafeEqual } from 'node:crypto';
import type { Database } from '@contacts/common/database/database.js';
import { Problem } from '@contacts/common/http/problems.js';
import type { Server } from '@contacts/common/http/server.js';
import { Counter, type Registry } from 'prom-client';
import { limitFailures } from '../rate-limit/limit-failures.js';
import type { BucketPolicy } from '../rate-limit/token-bucket.js';
import { positiveInteger } from './bitrix24/contact.js';

const events = new Set(['ONCRMCONTACTADD', 'ONCRMCONTACTUPDATE', 'ONCRMCONTACTDELETE']);

/** Wrong tokens of one client address: as many as the list lets fail by default. */
const failurePolicy: BucketPolicy = { perSecond: 5, burst: 250 };

/**
 * The inbox has at most about so many contacts. To read them again, one request for 50, takes a quarter of an hour at 2
 * requests a second; a full pass is quicker by then, and the inbox of a synchroniser that is away does not grow for ever.
 */
const maxInboxContacts = 100_000;

export interface ReceiverOptions {
	database: Database;
	token: string;
	registry: Registry;
	/** Milliseconds that never go back. */
	clock: () => number;
}

/**
 * `POST /bitrix24/events`: takes the portal's outgoing webhook. It notes which contact was changed and answers; reading the
 * contact again is for the synchroniser. The portal sends each event once and in no certain order, so what it says is only a
 * hint.
 */
export async function receiveEvents(api: Server, { database, token, registry, clock }: ReceiverOptions): Promise<void> {
	const onFailure = limitFailures(failurePolicy, registry, clock);
	const received = new Counter({
		name: 'crm_events_total',
		help: 'Events of the CRM, by whether they were stored, or dropped because the inbox was full: then a full pass is due.',
		labelNames: ['outcome'],
		registers: [registry],
	});
	for (const outcome of ['stored', 'dropped']) received.inc({ outcome }, 0);

	api.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, body, done) => {
		done(null, new URLSearchParams(String(body)));
	});
	api.post('/bitrix24/events', async (request) => {
		const body = request.body;
		if (!(body instanceof URLSearchParams)) throw new Problem('unsupported_media_type');
		if (!sameText(body.get('auth[application_token]') ?? '', token)) {
			onFailure(request);
			throw new Problem('unauthorized');
		}
		const event = (body.get('event') ?? '').toUpperCase();
		const id = positiveInteger(body.get('data[FIELDS][ID]'));
		if (!events.has(event) || id === undefined) throw new Problem('invalid_body');
		received.inc({ outcome: (await store(database, id, event)) ? 'stored' : 'dropped' });
		return { ok: true };
	});
}

/**
 * Stores the event of a contact, in place of one that waits already.
 *
 * @returns false when the inbox is full: a full pass is due then, which finds what the event would have told
 */
async function store(database: Database, contactId: number, event: string): Promise<boolean> {
	const [row] = await database.query(
		(sql) => sql<[{ stored: boolean }]>`
			with inbox as materialized (
				select count(*) >= ${maxInboxContacts}::int as is_full
				from (select from crm_event_inbox limit ${maxInboxContacts}::int) counted
			), stored as (
				insert into crm_event_inbox (bitrix_id, event)
				select ${contactId}::bigint, ${event} from inbox
				where not is_full or exists (select from crm_event_inbox where bitrix_id = ${contactId}::bigint)
				on conflict (bitrix_id) do update set
					event = excluded.event, received_at = clock_timestamp(), attempts = 0, retry_at = null
				returning 1
			), due as (
				update crm_sync_state set last_full_at = null
				where last_full_at is not null and not exists (select from stored)
			)
			select exists (select from stored) as stored`,
	);
	return row.stored;
}

/** Compares in a time that tells nothing of where the texts differ. */
function sameText(a: string, b: string): boolean {
	const digest = (text: string) => createHash('sha256').update(text).digest();
	return timingSafeEqual(digest(a), digest(b));
}
