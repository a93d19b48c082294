import { STATUS_CODES } from 'node:http';
import type { TObject } from '@sinclair/typebox';
import type { FastifyError, FastifyReply, FastifyRequest, FastifySchemaValidationError } from 'fastify';
import { DatabaseBusyError, DatabaseError, StoodStillError } from '../database/errors.js';
import { type FormatName, formats } from '../schemas/fields.js';

/** Which field is wrong and what is allowed there, but never the value that was sent. */
export interface FieldError {
	field: string;
	message: string;
}

declare module 'fastify' {
	interface FastifyRequest {
		/** The error response to this request, for the log. */
		problem: Problem | undefined;
	}
}

interface CatalogueEntry {
	status: number;
	detail: string;
	headers?: Record<string, string>;
}

/**
 * Every error response of the services, by the stable code that clients rely on. The texts are fixed. They never contain
 * any part of a request or of an internal failure.
 */
export const catalogue = {
	invalid_json: { status: 400, detail: 'The body is not valid JSON in UTF-8.' },
	invalid_body: { status: 400, detail: 'The body does not have the required form.' },
	invalid_query: {
		status: 400,
		detail: 'The request line, the URL or a query parameter does not have the required form.',
	},
	unauthorized: {
		status: 401,
		detail: 'The query parameters "project" and "api_key" must name a project and one of its valid keys, each once.',
		headers: { 'www-authenticate': 'ApiKey realm="contacts"' },
	},
	not_found: { status: 404, detail: 'There is nothing at this path.' },
	method_not_allowed: {
		status: 405,
		detail: 'This path does not accept this method; "Allow" names those that it accepts.',
	},
	request_timeout: { status: 408, detail: 'The request did not arrive completely in time. Repeat it.' },
	cursor_expired: {
		status: 410,
		detail: 'The cursor is too old, or from before the data was restored. Begin again without a cursor.',
	},
	payload_too_large: { status: 413, detail: 'The request is larger than this service accepts.' },
	unsupported_media_type: {
		status: 415,
		detail: 'The body must be sent as application/json, without a content encoding.',
	},
	rate_limited: { status: 429, detail: 'Too many requests. Try again after the time in "Retry-After".' },
	overloaded: {
		status: 503,
		detail: 'The service can accept no more requests at the moment. Try again after the time in "Retry-After".',
		headers: { 'retry-after': '1' },
	},
	database_error: {
		status: 500,
		detail: 'The database did not respond. Try again after the time in "Retry-After".',
		headers: { 'retry-after': '2' },
	},
	internal_error: { status: 500, detail: 'The service failed. Quote "request_id" when you report it.' },
} as const satisfies Record<string, CatalogueEntry>;

export type ProblemCode = keyof typeof catalogue;

/** Where the codes are explained: in the guide of the service that responds. Relative to the URL of the request (RFC 9457). */
export const explanation = '/docs#errors';

interface ProblemDetails {
	/** Overrides the default of the code. */
	status?: number;
	/** Overrides the text of the code. It holds nothing that was sent. */
	detail?: string;
	errors?: FieldError[];
	headers?: Record<string, string>;
	/** Why, as a stable word. Only for the log. */
	reason?: string;
	/** Only for the log. */
	cause?: unknown;
}

/** Throw it anywhere in the handling of a request, to respond with an entry of the catalogue. */
export class Problem extends Error {
	override name = 'Problem';
	readonly status: number;
	/** The wrong fields, or else the text of the catalogue, unless the route has another one. */
	detail: string;
	readonly errors: FieldError[] | undefined;
	readonly headers: Record<string, string>;
	readonly reason: string | undefined;

	constructor(
		readonly code: ProblemCode,
		details: ProblemDetails = {},
	) {
		super(code, 'cause' in details ? { cause: details.cause } : undefined);
		const entry: CatalogueEntry = catalogue[code];
		this.status = details.status ?? entry.status;
		this.detail = details.detail ?? describe(details.errors) ?? entry.detail;
		this.errors = details.errors;
		this.headers = { ...entry.headers, ...details.headers };
		this.reason = details.reason;
	}

	/** The names of the invalid fields, never what was sent. */
	get fields(): string[] | undefined {
		return this.errors?.map(({ field }) => field);
	}

	get title(): string {
		return STATUS_CODES[this.status] ?? 'Error';
	}

	/** The body of the response, RFC 9457. */
	body(requestId: string): string {
		return JSON.stringify({
			type: explanation,
			title: this.title,
			status: this.status,
			detail: this.detail,
			code: this.code,
			request_id: requestId,
			errors: this.errors,
		});
	}
}

/** The sentence that a person reads first. */
function describe(errors: FieldError[] | undefined): string | undefined {
	return errors && `${errors.map(({ field, message }) => `${field} ${message}`).join('; ')}.`;
}

/** Headers of every response. A route may override `no-store`. */
export const commonHeaders = {
	'cache-control': 'no-store',
	'referrer-policy': 'no-referrer',
	'x-content-type-options': 'nosniff',
} as const;

/** Headers that describe a response which failed before its first byte. The others are replaced. */
const representationHeaders = ['content-encoding', 'etag', 'contacts-synced-at'];

/** The error handler of every service. Every error becomes a problem of the catalogue, and failures of the service are logged. */
export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
	const problem = toProblem(error);
	request.problem = problem;
	if (problem.code === 'internal_error' || problem.code === 'database_error') {
		request.log.error({ request_id: request.id, err: problem.cause ?? error }, problem.code);
	}
	if (reply.hasHeader('etag')) for (const name of representationHeaders) reply.removeHeader(name);
	// Sends a buffer: for a string, Fastify would add a charset, which this media type does not have.
	void reply
		.code(problem.status)
		.headers({ ...commonHeaders, 'x-request-id': request.id, ...problem.headers })
		.type('application/problem+json')
		.send(Buffer.from(problem.body(request.id)));
}

const frameworkCodes: Record<string, ProblemCode> = {
	FST_ERR_BAD_URL: 'invalid_query',
	FST_ERR_CTP_BODY_TOO_LARGE: 'payload_too_large',
	FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
	FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'invalid_body',
	// The client disconnected while it was sending. Nobody reads the response, but it must not be logged as a failure of the
	// service.
	ECONNRESET: 'invalid_body',
};

/** The problem that describes an error of any kind. */
export function toProblem(error: unknown): Problem {
	if (error instanceof Problem) return error;
	if (error instanceof StoodStillError) return new Problem('overloaded', { reason: 'stood_still' });
	if (error instanceof DatabaseBusyError) return new Problem('overloaded');
	if (error instanceof DatabaseError) return new Problem('database_error', { cause: error.cause });
	const { validation, validationContext, code } = error as Partial<FastifyError>;
	if (validation) {
		return validationContext === 'body'
			? new Problem('invalid_body', { errors: fieldErrors(validation, 'body', 'fields') })
			: new Problem('invalid_query', { errors: fieldErrors(validation, 'query', 'parameters') });
	}
	const known = code === undefined ? undefined : frameworkCodes[code];
	return known === undefined ? new Problem('internal_error', { cause: error }) : new Problem(known);
}

/** @param part the field of an error that is about no single field */
function fieldErrors(
	failures: FastifySchemaValidationError[],
	part: 'body' | 'query',
	names: 'fields' | 'parameters',
): FieldError[] {
	const errors = new Map<string, FieldError>();
	for (const failure of failures) {
		const { keyword, params, instancePath } = failure;
		const path = keyword === 'required' ? String(params.missingProperty) : instancePath.slice(1).replaceAll('/', '.');
		const isUnknown = keyword === 'additionalProperties';
		// One error for all unknown names, without these names, which are text of the client.
		const field = isUnknown || path === '' ? part : path;
		const message = isUnknown ? noOthers(failure, names) : messageOf(failure, part);
		errors.set(`${field} ${message}`, { field, message });
	}
	return [...errors.values()];
}

/** @param failure with the failed schema, which the server's validation is configured to include */
function noOthers(failure: FastifySchemaValidationError & { parentSchema?: TObject }, names: string): string {
	const allowed = Object.keys(failure.parentSchema?.properties ?? {});
	return `must hold no ${names}${allowed.length === 0 ? '' : ` but ${allowed.join(', ')}`}`;
}

const typeNames: Record<string, string> = {
	object: 'an object',
	string: 'a string',
	integer: 'an integer',
	boolean: 'true or false',
	null: 'null',
};

/** What is allowed, by the keyword of JSON Schema that failed. */
const messages: Record<string, (params: Record<string, unknown>) => string> = {
	required: () => 'is required',
	type: ({ type }) =>
		`must be ${[type]
			.flat()
			.map((name) => typeNames[String(name)])
			.join(' or ')}`,
	format: ({ format }) => formats[format as FormatName].message,
	not: () => 'must not be 0',
	minLength: () => 'must not be empty',
	maxLength: ({ limit }) => `must have at most ${limit} characters`,
	minimum: ({ limit }) => `must be at least ${limit}`,
	maximum: ({ limit }) => `must be at most ${limit}`,
};

function messageOf({ keyword, params }: FastifySchemaValidationError, part: 'body' | 'query'): string {
	// Every parameter is a text, unless it is repeated.
	if (part === 'query' && keyword === 'type') return 'must be given once';
	return messages[keyword]?.(params) ?? 'must have the documented form';
}
