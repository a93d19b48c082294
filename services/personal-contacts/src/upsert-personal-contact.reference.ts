import { commonHeaders } from '@contacts/common/api-reference/headers.js';
import type { OperationReference } from '@contacts/common/api-reference/operation.js';
import { bodyProblems } from './body-problems.js';

/** `POST /api/personal_contacts` in the API reference. */
export const upsertReference: OperationReference = {
	summary: 'Save the user of a personal chat',
	description: [
		'`chat_id` is required: an integer other than 0, within ±9007199254740991. Strings have at most 255 characters.',
		'There is one record for each `chat_id`. A field that is present replaces the stored value, null clears it, and an',
		'absent field keeps it. The project that wrote last is recorded.',
		'',
		'The user is saved only while the chat has **no active direct subscription** to the bot; while it has one, nothing is written and',
		'the response is `skipped`. A subscription is active from its start until its end (exclusive). Without an end it stays active. The check',
		'and the write are one atomic statement.',
		'',
		'JSON types are strict and nothing is coerced: `"12"` is not an integer, `""` is not null. Text with U+0000 or a lone',
		'surrogate is refused, never changed. A birth date must be a real calendar date from 0001-01-01 on. It may lie in the future, and no',
		'time zone shifts it. A number counts as it is written: `1.0` and `1e3` are integers, `0.99999999999999999999` is not, though it would',
		'be rounded to one. An unknown field or query parameter gets a 400, because data in a misspelt field would be lost silently. A body has',
		'at most 16 KiB.',
	].join('\n'),
	bodyExamples: {
		all: {
			summary: 'All fields',
			value: { chat_id: 5550001, username: 'ivan', name: 'Ivan Petrov', birth_date: '1990-05-17' },
		},
		clear: {
			summary: 'Clear the user name, keep the rest',
			value: { chat_id: 5550001, username: null },
		},
		least: { summary: 'Only the required field', value: { chat_id: 5550001 } },
	},
	responses: {
		200: {
			description:
				'`saved`: the row is durably committed. `skipped`: the chat has an active direct subscription, and nothing was written.',
			headers: commonHeaders,
			content: {
				'application/json': {
					schema: { $ref: '#/components/schemas/Outcome' },
					examples: {
						saved: { summary: 'The user was saved', value: { ok: 'saved' } },
						skipped: { summary: 'The chat has an active direct subscription', value: { ok: 'skipped' } },
					},
				},
			},
		},
		...bodyProblems('chat_id, username, name, birth_date', [
			{ field: 'chat_id', message: 'is required' },
			{ field: 'birth_date', message: 'must be a real calendar date, YYYY-MM-DD' },
		]),
	},
};
