import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { nonZeroInteger, nullableString } from '@contacts/common/schemas/fields.js';
import { Type } from '@sinclair/typebox';
import type { UpsertBatcher } from './upsert-batcher.js';
import { upsertReference } from './upsert-personal-contact.reference.js';

export const body = Type.Object(
	{
		chat_id: nonZeroInteger({ description: 'ID of the personal chat.', examples: [5550001] }),
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

export const response = Type.Object({ ok: Type.Union([Type.Literal('saved'), Type.Literal('skipped')]) });

/** `POST /api/personal_contacts`: saves the user of a personal chat, unless the chat has an active direct subscription. */
export async function upsertPersonalContact(api: Server, { batcher }: { batcher: UpsertBatcher }): Promise<void> {
	api.route({
		method: 'POST',
		url: '/api/personal_contacts',
		schema: {
			operationId: 'personal_contacts.upsert',
			querystring: endpointQuery({}),
			body,
			response: { 200: response },
		},
		config: { reference: upsertReference },
		async handler({ body: contact, project, askedAt }) {
			const saved = await batcher.save({ contact, projectId: project.id }, askedAt);
			return { ok: saved ? ('saved' as const) : ('skipped' as const) };
		},
	});
}
