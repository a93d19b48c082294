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
		const {
			code = 'unexpected_response',
			detail = 'The response is not the service’s own.',
			...problem
		}: Partial<Problem> = isProblem(response, body) ? body : {};
		const requestId = problem.request_id ?? response.headers.get('x-request-id') ?? undefined;
		super(`${response.status} ${code}: ${detail}${requestId === undefined ? '' : ` (request ${requestId})`}`);
		this.code = code;
		this.status = response.status;
		this.requestId = requestId;
		this.errors = problem.errors ?? [];
		this.retryAfter = retryAfterOf(response);
	}
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

/** The header in whole seconds, as the services send it. Anything else counts as no header. */
export function retryAfterOf(response: Response): number | undefined {
	const value = response.headers.get('retry-after') ?? '';
	return /^\d+$/.test(value) ? Number(value) : undefined;
}

/** Whether this is an error of the services or of their gateways, and not of something else in between. */
export function isProblem({ headers }: Response, body: unknown): body is Problem {
	const { code, detail, request_id: requestId } = Object(body) as Partial<Problem>;
	const isOfThisType = /^application\/problem\+json\b/i.test(headers.get('content-type') ?? '');
	return isOfThisType && [code, detail, requestId].every((field) => typeof field === 'string');
}
