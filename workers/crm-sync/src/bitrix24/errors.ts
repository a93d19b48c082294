/**
 * What an error means for the caller:
 * - `retry`: a temporary error (network, 5xx, a page in place of JSON); the same call is sent again
 * - `slow_down`: too many requests; the same call is sent again, later
 * - `pause`: this method has used up its operating time; other methods work
 * - `stop`: an operator has to change something (credentials, rights, subscription, configuration)
 * - `not_found`, `access_denied`: about the one requested record
 * - `unread`: about the one requested record, which could not be read
 */
export type ErrorKind = 'retry' | 'slow_down' | 'pause' | 'stop' | 'not_found' | 'access_denied' | 'unread';

/** How often a call with an error of this kind is sent, and how long it waits before the second time. Each further delay is longer. */
export const retries: Partial<
	Record<ErrorKind, { attempts: number; delayMs: number; factor: number; jitterMs: number }>
> = {
	retry: { attempts: 6, delayMs: 1000, factor: 2, jitterMs: 250 },
	slow_down: { attempts: 9, delayMs: 1500, factor: 1.5, jitterMs: 500 },
};

/** For `pause`: how long the method is not called. The CRM frees a part of its operating time each minute. */
export const pauseMs = 30_000;

/** The maximum wait for such a method. The CRM adds up the operating time of ten minutes. */
export const maxPauseMs = 660_000;

/** The random part keeps several clients of one CRM from retrying at the same time. */
export function retryDelayMs(kind: ErrorKind, tries: number): number {
	const { delayMs = 0, factor = 1, jitterMs = 0 } = retries[kind] ?? {};
	return delayMs * factor ** (tries - 1) + Math.random() * jitterMs;
}

/**
 * Codes are stored, logged and printed, so the CRM must not be able to put arbitrary text there. The database has the
 * same check.
 */
const codePattern = /^[A-Za-z0-9_.-]{1,64}$/;

/** An error of the CRM or on the way to it. Its message contains neither the webhook's URL nor data of a contact. */
export class Bitrix24Error extends Error {
	override name = 'Bitrix24Error';
	/** The CRM's code, or one of this client's, in lower case. */
	readonly code: string;
	constructor(
		readonly kind: ErrorKind,
		code: string,
		readonly method: string,
		/** For `pause`: when the method may be tried again, in milliseconds since the epoch. */
		readonly until?: number,
	) {
		const checked = isCode(code) ? code : 'unknown_code';
		super(`${method}: ${checked}`);
		this.code = checked;
	}
}

/**
 * The response did not come, or not completely: `retry` if it may have taken the CRM too long, `stop` if it is too large. Fewer commands
 * in a request may pass.
 */
export class CutOffError extends Bitrix24Error {}

export function isCode(text: string): boolean {
	return codePattern.test(text);
}

/**
 * Codes with the same meaning everywhere: as the whole response, or for one command of a batch. A CRM writes them in either case,
 * such as `insufficient_scope`.
 */
const kinds: Record<string, ErrorKind> = {
	QUERY_LIMIT_EXCEEDED: 'slow_down',
	OPERATION_TIME_LIMIT: 'pause',
	INTERNAL_SERVER_ERROR: 'retry',
	ERROR_UNEXPECTED_ANSWER: 'retry',
	// These concern the whole CRM. They may come with a 5xx too, but they are not temporary.
	OVERLOAD_LIMIT: 'stop',
	PORTAL_DELETED: 'stop',
	INVALID_CREDENTIALS: 'stop',
	NO_AUTH_FOUND: 'stop',
	AUTHORIZATION_ERROR: 'stop',
	USER_ACCESS_ERROR: 'stop',
	ALLOWED_ONLY_INTRANET_USER: 'stop',
	INSUFFICIENT_SCOPE: 'stop',
	PAYMENT_REQUIRED: 'stop',
	ERROR_METHOD_NOT_FOUND: 'stop',
	NOT_FOUND: 'not_found',
	// For a request of one record, this is about that record. For a list, it means that there is no subscription or no right
	// at all.
	ACCESS_DENIED: 'access_denied',
};

const known = (code: string): ErrorKind | undefined => kinds[code.toUpperCase()];

/**
 * Parses an error body. Only the code decides, never the HTTP status alone or the description. Statuses have changed
 * between versions of the CRM, and descriptions are in the language of its users. An unknown code is retried only with a
 * 5xx.
 */
export function kindOf(code: string, status: number): ErrorKind {
	return known(code) ?? (status >= 500 ? 'retry' : 'stop');
}

/**
 * Classifies a response that is no JSON: a page of a proxy, a firewall or the CRM itself, of which only the status can be read.
 * A 4xx does not go away by itself, as where the CRM was deleted or a firewall refuses this program.
 */
export function kindOfPage(status: number): ErrorKind {
	if (status === 429) return 'slow_down';
	return status >= 400 && status < 500 && status !== 408 ? 'stop' : 'retry';
}

/** Parses the error of one batch command. An unknown code is about its record, and must not stop the other commands. */
export function kindOfCommand(code: string): ErrorKind {
	return known(code) ?? 'unread';
}
