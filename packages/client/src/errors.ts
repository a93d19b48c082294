import type { components as company } from './generated/company-contacts.js';
import type { components as personal } from './generated/personal-contacts.js';

type Problem = company['schemas']['Problem'] | personal['schemas']['Problem'];

/** Names an invalid field or parameter and says what is allowed there. */
export interface FieldError {
	field: string;
	message: string;
}

/** An unsuccessful response. Neither the error nor its message contains the key or an address with the key. */
export class ContactsError extends Error {
	override name = 'ContactsError';
	/** Branch on this code. `unexpected_response`: it did not come from the service but, for example, from a proxy. */
	readonly code: string;
	readonly status: number;
	/** Quote it when you ask for help. */
	readonly requestId: string | undefined;
	/** The invalid fields or parameters. */
	readonly errors: readonly FieldError[];
	/** Seconds to wait, as the service requests. */
	readonly retryAfter: number | undefined;

	constructor(response: Response, body: unknown) {
		const problem = isProblem(body) ? body : undefined;
		const requestId = problem?.request_id ?? response.headers.get('x-request-id') ?? undefined;
		const detail = problem?.detail ?? 'The response is not one of this API.';
		const code = problem?.code ?? 'unexpected_response';
		super(`${response.status} ${code}: ${detail}${requestId === undefined ? '' : ` (request ${requestId})`}`);
		this.code = code;
		this.status = response.status;
		this.requestId = requestId;
		this.errors = problem?.errors ?? [];
		this.retryAfter = retryAfterOf(response);
	}
}

/**
 * Returns the body of a successful response. Something else, such as a proxy, may respond with 200 and JSON too.
 *
 * @throws ContactsError for an unsuccessful response, and for a body that is not one of this API
 */
export function bodyOf<Body extends object>(
	{ data, error, response }: { data?: Body | undefined; error?: unknown; response: Response },
	isBody: (body: Partial<Body>) => boolean,
): Body {
	if (data === undefined) throw new ContactsError(response, error);
	if (data === null || !isBody(data)) throw new ContactsError(response, undefined);
	return data;
}

/** For a successful response whose body should be JSON but is not. @throws ContactsError */
export function notJson(error: unknown): never {
	if (error instanceof SyntaxError) throw new ContactsError(new Response(null, { status: 200 }), undefined);
	throw error;
}

/** No response arrived: the service could not be reached, the connection broke, or the call timed out. */
export class ContactsConnectionError extends Error {
	override name = 'ContactsConnectionError';

	/** @param reason an error code of the system, such as `ECONNREFUSED`, or `timeout` */
	constructor(
		origin: string,
		readonly reason: string,
	) {
		super(`No response from ${origin}: ${reason}`);
	}
}

/**
 * Returns the header in seconds. It is a whole number, or the time until a date (RFC 9110, section 10.2.3) by the clock of the
 * server: the clock here may differ. Anything else counts as no header.
 */
export function retryAfterOf(response: Response): number | undefined {
	const value = response.headers.get('retry-after');
	if (value === null) return undefined;
	if (/^\d+$/.test(value)) return Number(value);
	const now = Date.parse(response.headers.get('date') ?? '') || Date.now();
	const seconds = value.endsWith(' GMT') ? (Date.parse(value) - now) / 1000 : Number.NaN;
	return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function isProblem(body: unknown): body is Problem {
	if (typeof body !== 'object' || body === null) return false;
	const { code, detail } = body as Partial<Problem>;
	return typeof code === 'string' && typeof detail === 'string';
}
