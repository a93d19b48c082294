import type { components as company } from './generated/company-contacts.js';
import type { components as personal } from './generated/personal-contacts.js';

type Problem = company['schemas']['Problem'] | personal['schemas']['Problem'];

/** The stable words of the services' errors. */
export type ProblemCode = Problem['code'];

/** Where a field or parameter is wrong, and what is allowed there. */
export interface FieldError {
	field: string;
	message: string;
}

/** An answer other than success. Neither it nor its message ever holds the key or an address with it. */
export class ContactsError extends Error {
	override name = 'ContactsError';
	/** The word to decide on; `unexpected_answer` for an answer that is not one of the services, of a proxy for instance. */
	readonly code: ProblemCode | 'unexpected_answer';
	readonly status: number;
	/** To be quoted when you ask for help. */
	readonly requestId: string | undefined;
	/** With invalid fields or parameters. */
	readonly errors: readonly FieldError[];
	/** Seconds that the service asks to wait for. */
	readonly retryAfter: number | undefined;

	constructor(response: Response, body: unknown) {
		const problem = isProblem(body) ? body : undefined;
		const requestId = problem?.request_id ?? response.headers.get('x-request-id') ?? undefined;
		const errors = problem?.errors ?? [];
		const fields = errors.map(({ field, message }) => ` ${field === '' ? 'The body' : field} ${message}.`).join('');
		const detail = problem === undefined ? 'The answer is not one of this interface.' : problem.detail + fields;
		const code = problem?.code ?? 'unexpected_answer';
		super(`${response.status} ${code}: ${detail}${requestId === undefined ? '' : ` (request ${requestId})`}`);
		this.code = code;
		this.status = response.status;
		this.requestId = requestId;
		this.errors = errors;
		this.retryAfter = retryAfterOf(response);
	}
}

/** For a success that turned out not to be JSON, though it should be. @throws ContactsError */
export function notJson(error: unknown): never {
	if (error instanceof SyntaxError) throw new ContactsError(new Response(null, { status: 200 }), undefined);
	throw error;
}

/** No answer came: the service could not be reached, the connection broke, or the time was up. */
export class ContactsConnectionError extends Error {
	override name = 'ContactsConnectionError';

	/** @param reason a word of the system, as `ECONNREFUSED`, or `timeout` */
	constructor(
		origin: string,
		readonly reason: string,
	) {
		super(`No answer from ${origin}: ${reason}`);
	}
}

/** The header in seconds: a whole number, or the time until a date (RFC 9110, section 10.2.3). */
export function retryAfterOf(response: Response): number | undefined {
	const value = response.headers.get('retry-after');
	if (value === null) return undefined;
	const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
	return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

function isProblem(body: unknown): body is Problem {
	if (typeof body !== 'object' || body === null) return false;
	const { code, detail } = body as Partial<Problem>;
	return typeof code === 'string' && typeof detail === 'string';
}
