import { describeReference } from '@contacts/testing/shared-reference.js';
import { service } from './app.js';

const file = new URL('../../../docs/openapi/personal-contacts.json', import.meta.url);

describeReference(service, file, [
	{
		method: 'POST',
		path: '/api/personal_contacts',
		body: '{"chat_id":1}',
		cases: [
			{ name: 'saved', status: 200 },
			{
				name: 'skipped',
				status: 200,
				init: { body: '{"chat_id":2}' },
				async arrange({ sql }) {
					await sql`insert into direct_subscriptions (chat_id, started_at) values (2, now())`;
				},
			},
			{ name: 'wrong fields', status: 400, code: 'invalid_body', init: { body: '{"birth_date":"2023-02-29"}' } },
			{ name: 'no JSON', status: 400, code: 'invalid_json', init: { body: '{' } },
			{
				name: 'a body that is too large',
				status: 413,
				code: 'payload_too_large',
				init: { body: JSON.stringify({ chat_id: 1, extra: 'x'.repeat(17_000) }) },
			},
			{
				name: 'plain text',
				status: 415,
				code: 'unsupported_media_type',
				init: { headers: { 'content-type': 'text/plain' } },
			},
		],
	},
	{
		method: 'POST',
		path: '/api/direct_subscriptions',
		body: '{"chat_id":1,"active":true}',
		cases: [
			{ name: 'saved', status: 200 },
			{ name: 'wrong fields', status: 400, code: 'invalid_body', init: { body: '{"chat_id":1,"active":1}' } },
			{ name: 'no JSON', status: 400, code: 'invalid_json', init: { body: '{' } },
			{ name: 'a body that is too large', status: 413, code: 'payload_too_large', init: { body: 'x'.repeat(17_000) } },
			{
				name: 'plain text',
				status: 415,
				code: 'unsupported_media_type',
				init: { headers: { 'content-type': 'text/plain' } },
			},
		],
	},
]);
