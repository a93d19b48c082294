import type { Portal } from './portal.js';

export type EventName = 'ONCRMCONTACTADD' | 'ONCRMCONTACTUPDATE' | 'ONCRMCONTACTDELETE';

/** How long the portal waits for a response. [INF] */
const timeoutMs = 30_000;

/**
 * Sends an event as an outgoing webhook does: a form with the contact's id and no data of it. [DOC] One attempt, whatever the
 * response is: events are never sent again.
 *
 * @param token the outgoing webhook's application token
 * @returns the status of the response, 0 where there was none
 */
export async function sendEvent(
	portal: Portal,
	token: string,
	url: string,
	event: EventName,
	id: number,
): Promise<{ status: number }> {
	const domain = 'stand-in.bitrix24.example';
	// [DOC] In `auth` only what is no permission to call the portal.
	const body = new URLSearchParams({
		event,
		event_handler_id: '58',
		'data[FIELDS][ID]': String(id),
		ts: String(Math.floor(portal.clock() / 1000)),
		'auth[domain]': domain,
		'auth[client_endpoint]': `https://${domain}/rest/`,
		'auth[server_endpoint]': 'https://oauth.bitrix24.example/rest/',
		'auth[member_id]': 'a223c6b3710f85df22e9377d6c4f7553',
		'auth[application_token]': token,
	});
	const headers = { 'content-type': 'application/x-www-form-urlencoded' };
	const signal = AbortSignal.timeout(timeoutMs);
	try {
		const response = await fetch(url, { method: 'POST', headers, body: body.toString(), redirect: 'manual', signal });
		await response.arrayBuffer();
		return { status: response.status };
	} catch {
		// [DOC] The portal only logs it.
		return { status: 0 };
	}
}
