import { Type } from '@sinclair/typebox';
import { catalogue, explanation } from '../http/problems.js';

/** The format of every error (RFC 9457). */
export const ProblemSchema = Type.Object(
	{
		type: Type.String({
			description: 'Where the codes are explained, relative to the URL of the request.',
			examples: [explanation],
		}),
		title: Type.String({ description: 'The reason phrase of the status.', examples: ['Unauthorized'] }),
		status: Type.Integer({ minimum: 400, maximum: 599, description: 'The status of the response.', examples: [401] }),
		detail: Type.String({ description: 'What is wrong, for a person to read.' }),
		// No enum: a new code must not break the clients that validate responses.
		code: Type.String({
			description:
				'The stable code of the error: branch on it. New codes may be added; handle an unknown one by its status.',
			examples: Object.keys(catalogue),
		}),
		request_id: Type.String({
			pattern: '^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$',
			description:
				'The value of the header `x-request-id`. Quote it when you ask for help. In a response of the gateway itself it has no hyphens.',
			examples: ['0b5c8f0e-6c3e-4f0a-9a52-6d0c3c1f7b11'],
		}),
		errors: Type.Optional(
			Type.Array(
				Type.Object({
					field: Type.String({
						description:
							'Name of the field or parameter; `body` or `query` for an unknown one, or for the whole of it.',
					}),
					message: Type.String({ description: 'What is allowed there; never what was sent.' }),
				}),
				{ minItems: 1, description: 'Only for invalid fields or parameters.' },
			),
		),
	},
	{ description: 'An error (RFC 9457). It never echoes the URL or a value that was sent.' },
);
