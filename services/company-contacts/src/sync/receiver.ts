import { createHash, timingSafeEqual } from 'node:crypto';
import type { Database } from '@contacts/common/database/database.js';
import { Problem } from '@contacts/common/problems.js';
import type { Server } from '@contacts/common/server.js';
import { positiveInteger } from './bitrix24/contact.js';

const events = new Set(['ONCRMCONTACTADD', 'ONCRMCONTACTUPDATE', 'ONCRMCONTACTDELETE']);

/**
 * `POST /bitrix24/events`: takes the portal's outgoing webhook. It notes which contact was changed and answers; reading the
 * contact again is for the synchroniser. The portal sends each event once and in no certain order, so what it says is only a
 * hint.
 */
export async function receiveEvents(
	api: Server,
	{ database, token }: { database: Database; token: string },
): Promise<void> {
	api.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, body, done) => {
		done(null, new URLSearchParams(String(body)));
	});
	api.post('/bitrix24/events', async (request) => {
		const body = request.body;
		if (!(body instanceof URLSearchParams)) throw new Problem('unsupported_media_type');
		if (!sameText(body.get('auth[application_token]') ?? '', token)) throw new Problem('unauthorized');
		const event = (body.get('event') ?? '').toUpperCase();
		const id = positiveInteger(body.get('data[FIELDS][ID]'));
		if (!events.has(event) || id === undefined) throw new Problem('invalid_body');
		await database.query(
			(sql) => sql`
				insert into crm_event_inbox (bitrix_id, event) values (${id}, ${event})
				on conflict (bitrix_id) do update set
					event = excluded.event, received_at = clock_timestamp(), attempts = 0, retry_at = null`,
		);
		return { ok: true };
	});
}

/** Compares in a time that tells nothing of where the texts differ. */
function sameText(a: string, b: string): boolean {
	const digest = (text: string) => createHash('sha256').update(text).digest();
	return timingSafeEqual(digest(a), digest(b));
}
