import type { OpenAPIV3_1 } from 'openapi-types';
import { type FieldError, Problem, type ProblemCode } from '../http/problems.js';
import { commonHeaders, type Headers, header, shared } from './headers.js';

/** An example of an error, created by the code that creates the real ones. */
interface ProblemExample {
	code: ProblemCode;
	/** Overrides the default of the code. */
	status?: number;
	summary: string;
	errors?: FieldError[];
}

const exampleId = '0b5c8f0e-6c3e-4f0a-9a52-6d0c3c1f7b11';

/** The description of all errors of a status. */
export function problemResponse(
	description: string,
	examples: Record<string, ProblemExample>,
	headers: Headers = {},
): OpenAPIV3_1.ResponseObject {
	return {
		description,
		headers: { ...commonHeaders, ...headers },
		content: {
			'application/problem+json': {
				schema: { $ref: '#/components/schemas/Problem' },
				examples: Object.fromEntries(
					Object.entries(examples).map(([name, { code, summary, ...details }]) => [
						name,
						{ summary, value: JSON.parse(new Problem(code, details).body(exampleId)) as unknown },
					]),
				),
			},
		},
	};
}

/** The error responses that both services share. A service adds its own and may replace any of these. */
export function commonProblems(method: 'GET' | 'POST') {
	return {
		401: problemResponse(
			'`unauthorized`: project or key is missing, given twice, wrong, disabled, revoked, expired, or not for this service. ' +
				'The response is always the same, so it reveals nothing. It is sent before the body or any other parameter is read.',
			{ unauthorized: { code: 'unauthorized', summary: 'Wrong project or key' } },
			{ 'WWW-Authenticate': shared('WWW-Authenticate') },
		),
		404: problemResponse('`not_found`: there is nothing at this path. A trailing slash makes it a different path.', {
			not_found: { code: 'not_found', summary: 'Unknown path' },
		}),
		405: problemResponse(
			`\`method_not_allowed\`: any method other than ${method}, including HEAD and OPTIONS, with or without credentials.`,
			{ method_not_allowed: { code: 'method_not_allowed', summary: 'Another method' } },
			{ Allow: header('The methods that this path accepts.', method, { type: 'string', enum: [method] }) },
		),
		408: problemResponse('`invalid_query`: the headers did not arrive within 10 seconds, or the request within 15.', {
			too_slow: { code: 'invalid_query', status: 408, summary: 'The request arrived too slowly' },
		}),
		431: problemResponse('`payload_too_large`: URL and headers are larger than 16 KiB.', {
			headers_too_large: { code: 'payload_too_large', status: 431, summary: 'URL or headers too large' },
		}),
		500: problemResponse(
			'`database_error`: the database failed, or could not be reached within 4 seconds; try again after `Retry-After`. ' +
				'`internal_error`: a fault of the service. Neither reveals internal details.',
			{
				database_error: { code: 'database_error', summary: 'The database did not respond' },
				internal_error: { code: 'internal_error', summary: 'A fault of the service' },
			},
			{ 'Retry-After': shared('Retry-After-Database') },
		),
		503: problemResponse(
			'`overloaded`: too many requests wait, or the service is shutting down; try again after `Retry-After`.',
			{ overloaded: { code: 'overloaded', summary: 'Too many requests wait' } },
			{ 'Retry-After': shared('Retry-After') },
		),
	} satisfies Record<number, OpenAPIV3_1.ResponseObject>;
}
