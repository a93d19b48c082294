import { commonHeaders } from '@contacts/common/api-reference/headers.js';
import type { OperationReference } from '@contacts/common/api-reference/operation.js';
import { bodyProblems } from './body-problems.js';

/** `POST /api/direct_subscriptions` in the API reference. */
export const setDirectSubscriptionReference: OperationReference = {
	summary: 'Report that a chat subscribes to the bot directly, or leaves it',
	description: [
		'Send it as soon as a chat subscribes to the bot directly (`"active": true`) or leaves it (`false`): while the subscription is active,',
		'`personal_contacts.upsert` saves nothing for the chat. An upsert that is sent after the response to this request sees the change.',
		'',
		'It is **idempotent**: `true` for an active subscription, and `false` if none is active, change nothing. The requests for one chat are',
		'applied in order, and **the last one decides**, whatever its `at` says.',
		'',
		'`at` is when the change took effect, as an RFC 3339 date-time. Default: now. A time that is more than a second in the future gets a',
		'400. A subscription starts no earlier than the last one of the chat ended, and ends no earlier than it started: an earlier `at` counts',
		'as that time. So a late report still takes effect, and a subscription that it starts never overlaps an earlier one.',
		'',
		'Operators can plan subscriptions. An active one with a planned end keeps that end. One that is planned without an end starts at once',
		'with `true`. One that is planned with an end stays: the subscription that `true` starts may overlap it, and a `false` ends both once',
		'both are active. With `false` what is planned stays.',
	].join('\n'),
	bodyExamples: {
		subscribed: { summary: 'The chat has subscribed', value: { chat_id: 5550001, active: true } },
		left: {
			summary: 'The chat has left, at this time',
			value: { chat_id: 5550001, active: false, at: '2026-05-17T12:00:00Z' },
		},
	},
	responses: {
		200: {
			description: 'The report is durably committed, even if it changed nothing.',
			headers: commonHeaders,
			content: {
				'application/json': {
					schema: { $ref: '#/components/schemas/Saved' },
					examples: { saved: { summary: 'The report was applied', value: { ok: 'saved' } } },
				},
			},
		},
		...bodyProblems('chat_id, active, at', [
			{ field: 'active', message: 'must be boolean' },
			{ field: 'at', message: 'must not be in the future' },
		]),
	},
};
