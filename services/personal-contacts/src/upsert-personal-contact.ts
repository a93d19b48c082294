import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { nonZeroInteger, nullableString } from '@contacts/common/schemas/fields.js';
import { Type } from '@sinclair/typebox';
import fp from 'fastify-plugin';
import type { UpsertBatcher } from './upsert-batcher.js';

const body = Type.Object(
	{
		chat_id: nonZeroInteger({ description: 'ID of the personal chat, not 0.', examples: [5550001] }),
		username: Type.Optional(
			nullableString({
				format: 'stored-text',
				maxLength: 255,
				description: 'User name, without "@".',
				examples: ['ivan'],
			}),
		),
		name: Type.Optional(
			nullableString({ format: 'stored-text', maxLength: 255, description: 'Full name.', examples: ['Ivan Petrov'] }),
		),
		birth_date: Type.Optional(
			nullableString({ format: 'calendar-date', description: 'Date of birth, YYYY-MM-DD.', examples: ['1990-05-17'] }),
		),
	},
	{ additionalProperties: false },
);

const response = Type.Object(
	{ ok: Type.Union([Type.Literal('saved'), Type.Literal('skipped')]) },
	{
		$id: 'Outcome',
		description:
			'`saved`: the row is durably committed. `skipped`: the chat has an active direct subscription, and nothing was written, but for the rare case in the guide.',
	},
);

const examples = {
	body: {
		all: {
			summary: 'All fields',
			value: { chat_id: 5550001, username: 'ivan', name: 'Ivan Petrov', birth_date: '1990-05-17' },
		},
		clear: { summary: 'Clear the user name, keep the rest', value: { chat_id: 5550001, username: null } },
		least: { summary: 'Only the required field', value: { chat_id: 5550001 } },
	},
	response: {
		saved: { summary: 'The user was saved', value: { ok: 'saved' } },
		skipped: { summary: 'The chat has an active direct subscription', value: { ok: 'skipped' } },
	},
};

const description = `
There is one record for each \`chat_id\`. A field that is present replaces the stored value, null clears it, and an absent field
keeps it. The project that wrote last is recorded.

The user is saved only while the chat has **no active direct subscription** to the bot. While it has one, nothing is written and the
response is \`skipped\`. The check and the write are one atomic statement.

JSON types are strict and nothing is coerced: \`"12"\` is not an integer, \`""\` is not null. A number counts as it is written:
\`1.0\` and \`1e3\` are integers, \`0.99999999999999999999\` is not. Text with U+0000 or a lone surrogate is refused, never changed. A
birth date is a real calendar date from 0001-01-01 on. It may lie in the future, and no time zone shifts it. An unknown field gets a
400, because data in a misspelt field would be lost silently. A body has at most 16 KiB.
`.trim();

async function route(api: Server, { batcher }: { batcher: UpsertBatcher }): Promise<void> {
	api.route({
		method: 'POST',
		url: '/api/personal_contacts',
		schema: {
			operationId: 'personal_contacts.upsert',
			summary: 'Save the user of a personal chat',
			description,
			querystring: endpointQuery({}),
			body,
			response: { 200: response },
		},
		config: { examples },
		async handler({ body: contact, project, deadline }) {
			return { ok: await batcher.save({ contact, projectId: project.id }, deadline) };
		},
	});
}

/** `POST /api/personal_contacts`: saves the user of a personal chat, unless the chat has an active direct subscription. */
export const upsertPersonalContact = fp(route, {
	name: 'personal_contacts.upsert',
	fastify: '5.x',
	encapsulate: true,
	dependencies: ['authenticate'],
});
