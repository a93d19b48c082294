import type { Portal } from './portal.js';

export type EventName = 'ONCRMCONTACTADD' | 'ONCRMCONTACTUPDATE' | 'ONCRMCONTACTDELETE';

/** What differs from the event that the portal would send. */
export interface EventOverrides {
	/** Another token; null: none at all. */
	applicationToken?: string | null;
	/** Seconds since the epoch. */
	ts?: number;
	domain?: string;
	memberId?: string;
	handlerId?: number;
	/** Any parameters by their names, as auth[scope]; null leaves one out. */
	parameters?: Record<string, string | null>;
	/** This body and nothing else. */
	body?: string;
	contentType?: string;
	/** How long the portal waits for a response, 30,000 milliseconds by default. [INF] */
	timeout?: number;
}

/** An attempt to deliver an event. */
export interface SentEvent {
	at: number;
	url: string;
	event: EventName;
	id: number;
	/** 0: there was no response. */
	status: number;
}

/**
 * Sends an event as an outgoing webhook does: a form with the contact's id and no data of it. [DOC] One attempt, whatever the
 * response is: events are never sent again.
 *
 * @param token the outgoing webhook's application token
 */
export async function sendEvent(
	portal: Portal,
	token: string,
	url: string,
	event: EventName,
	id: number,
	overrides: EventOverrides = {},
): Promise<SentEvent> {
	const at = portal.clock();
	const sent: SentEvent = { at, url, event, id, status: 0 };
	try {
		const response = await fetch(url, {
			method: 'POST',
			headers: { 'content-type': overrides.contentType ?? 'application/x-www-form-urlencoded' },
			body: overrides.body ?? formOf(event, id, token, at, overrides),
			redirect: 'manual',
			signal: AbortSignal.timeout(overrides.timeout ?? 30_000),
		});
		sent.status = response.status;
		await response.arrayBuffer();
	} catch {
		// [DOC] The portal writes it down somewhere, and that is all.
	}
	return sent;
}

/** [DOC] The form of an outgoing webhook; in `auth` only what is no permission to call the portal. */
function formOf(event: EventName, id: number, token: string, at: number, overrides: EventOverrides): string {
	const domain = overrides.domain ?? 'stand-in.bitrix24.example';
	const form = new URLSearchParams({
		event,
		event_handler_id: String(overrides.handlerId ?? 58),
		'data[FIELDS][ID]': String(id),
		ts: String(overrides.ts ?? Math.floor(at / 1000)),
		'auth[domain]': domain,
		'auth[client_endpoint]': `https://${domain}/rest/`,
		'auth[server_endpoint]': 'https://oauth.bitrix24.example/rest/',
		'auth[member_id]': overrides.memberId ?? 'a223c6b3710f85df22e9377d6c4f7553',
	});
	if (overrides.applicationToken !== null) form.set('auth[application_token]', overrides.applicationToken ?? token);
	for (const [name, value] of Object.entries(overrides.parameters ?? {})) {
		if (value === null) form.delete(name);
		else form.set(name, value);
	}
	return form.toString();
}
