/**
 * What an error means for the caller:
 * - `retry`: it may pass by itself (network, 5xx, HTML in place of JSON); the same call is sent again
 * - `slow_down`: too many requests; the same call is sent again, later
 * - `hold`: this method has used up its time on the portal; other methods work
 * - `stop`: somebody has to change something (credentials, rights, subscription, configuration)
 * - `not_found`, `access_denied`: about the one record that was asked for
 */
export type ErrorKind = 'retry' | 'slow_down' | 'hold' | 'stop' | 'not_found' | 'access_denied';

/** An error of the portal or on the way to it. Its message holds neither the webhook's address nor anything of a contact. */
export class Bitrix24Error extends Error {
	override name = 'Bitrix24Error';
	constructor(
		readonly kind: ErrorKind,
		/** The portal's code, or one of ours in lower case. */
		readonly code: string,
		readonly method: string,
		/** For `hold`: when the method may be tried again, in milliseconds since the epoch. */
		readonly until?: number,
	) {
		super(`${method}: ${code}`);
	}
}

const kinds: Record<string, ErrorKind> = {
	QUERY_LIMIT_EXCEEDED: 'slow_down',
	OPERATION_TIME_LIMIT: 'hold',
	INTERNAL_SERVER_ERROR: 'retry',
	ERROR_UNEXPECTED_ANSWER: 'retry',
	// These come with a 5xx on some portals too, and do not pass by themselves.
	OVERLOAD_LIMIT: 'stop',
	PORTAL_DELETED: 'stop',
	NOT_FOUND: 'not_found',
	// About one record where a record was asked for; of a list it means that there is no subscription or no right at all.
	ACCESS_DENIED: 'access_denied',
};

/**
 * What an error body says. The code decides, never the HTTP status alone and never the description: statuses have changed
 * between versions of the portal, and descriptions are in the portal's language. A code that nobody knows is not retried
 * for ever: 5xx may pass, the rest will not.
 */
export function kindOf(code: string, status: number): ErrorKind {
	return kinds[code] ?? (status >= 500 ? 'retry' : 'stop');
}
