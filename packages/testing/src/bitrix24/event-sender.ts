export type EventName = 'ONCRMCONTACTADD' | 'ONCRMCONTACTUPDATE' | 'ONCRMCONTACTDELETE';

/**
 * Sends an event as an outgoing webhook does: a form with the contact's ID and no data of it. There is one attempt, whatever
 * the response is.
 *
 * @param token the outgoing webhook's application token
 * @returns the status of the response, 0 if there was none
 */
export async function sendEvent(url: string, token: string, event: EventName, id: number): Promise<{ status: number }> {
	const body = new URLSearchParams({
		event,
		event_handler_id: '58',
		'data[FIELDS][ID]': String(id),
		ts: '1727018926',
		'auth[domain]': 'stand-in.bitrix24.example',
		'auth[client_endpoint]': 'https://stand-in.bitrix24.example/rest/',
		'auth[server_endpoint]': 'https://oauth.bitrix24.example/rest/',
		'auth[member_id]': 'a223c6b3710f85df22e9377d6c4f7553',
		'auth[application_token]': token,
	});
	try {
		const response = await fetch(url, {
			method: 'POST',
			body,
			redirect: 'manual',
			signal: AbortSignal.timeout(30_000),
		});
		await response.arrayBuffer();
		return { status: response.status };
	} catch {
		return { status: 0 };
	}
}
