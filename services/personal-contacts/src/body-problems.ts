import { commonProblems, problemResponse } from '@contacts/common/api-reference/problem-responses.js';
import type { FieldError } from '@contacts/common/http/problems.js';

/**
 * The errors of an operation with a body, for the API reference.
 *
 * @param allowed the names of the operation's fields
 * @param wrong an example of invalid fields
 */
export function bodyProblems(allowed: string, wrong: FieldError[]) {
	return {
		...commonProblems('POST'),
		400: problemResponse(
			'`invalid_json`: the body is empty, not JSON, or not UTF-8. `invalid_body`: a field is missing, wrong or unknown. ' +
				'`invalid_query`: a query parameter is unknown, or the URL or the request itself is malformed.',
			{
				invalid_body: { code: 'invalid_body', summary: 'Wrong fields', errors: wrong },
				unknown_field: {
					code: 'invalid_body',
					summary: 'An unknown field',
					errors: [{ field: 'body', message: `must hold no fields but ${allowed}` }],
				},
				invalid_json: { code: 'invalid_json', summary: 'No JSON' },
				unknown_parameter: {
					code: 'invalid_query',
					summary: 'An unknown query parameter',
					errors: [{ field: 'query', message: 'must hold no parameters but project, api_key' }],
				},
				invalid_query: { code: 'invalid_query', summary: 'A malformed URL or request' },
			},
		),
		413: problemResponse('`payload_too_large`: the body is larger than 16 KiB.', {
			payload_too_large: { code: 'payload_too_large', summary: 'A body that is too large' },
		}),
		415: problemResponse(
			'`unsupported_media_type`: the body is not sent as `application/json`, or has a content encoding.',
			{ unsupported_media_type: { code: 'unsupported_media_type', summary: 'Another media type' } },
		),
	};
}
