import type { Database } from '@contacts/common/database/database.js';
import { Problem } from '@contacts/common/http/problems.js';
import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { nonZeroInteger, readTimestamp } from '@contacts/common/schemas/fields.js';
import { Type } from '@sinclair/typebox';
import { applySubscriptionReport } from './direct-subscriptions.sql.js';
import { setDirectSubscriptionReference } from './set-direct-subscription.reference.js';

const body = Type.Object(
	{
		chat_id: nonZeroInteger({ description: 'ID of the personal chat.', examples: [5550001] }),
		active: Type.Boolean({ description: 'Whether the chat has a direct subscription to the bot.' }),
		at: Type.Optional(
			Type.String({
				format: 'timestamp',
				description: 'When the change took effect, RFC 3339; not in the future. Default: now.',
				examples: ['2026-05-17T12:00:00Z'],
			}),
		),
	},
	{ additionalProperties: false },
);

export const response = Type.Object({ ok: Type.Literal('saved') });

/** How far the clock of the bot's backend may be ahead, in milliseconds. Such a time counts as now. */
const maxClockLeadMs = 1000;

/** `POST /api/direct_subscriptions`: records that a chat subscribes to the bot directly, or leaves it. */
export async function setDirectSubscription(
	api: Server,
	{ database, now = Date.now }: { database: Database; now?: () => number },
): Promise<void> {
	/** The last report of each chat with reports that are in progress or waiting. */
	const lastReports = new Map<number, Promise<void>>();

	/** Runs the work after all earlier work of this chat, whether it succeeded or failed. */
	async function inOrder(chatId: number, work: () => Promise<void>): Promise<void> {
		const task = (lastReports.get(chatId) ?? Promise.resolve()).then(work, work);
		lastReports.set(chatId, task);
		try {
			await task;
		} finally {
			if (lastReports.get(chatId) === task) lastReports.delete(chatId);
		}
	}

	api.route({
		method: 'POST',
		url: '/api/direct_subscriptions',
		schema: {
			operationId: 'direct_subscriptions.set',
			querystring: endpointQuery({}),
			body,
			response: { 200: response },
		},
		config: { reference: setDirectSubscriptionReference },
		async handler({ body: { chat_id: chatId, active: isActive, at: text }, askedAt }) {
			const at = text === undefined ? undefined : readTimestamp(text);
			if (at !== undefined && at > now() + maxClockLeadMs) {
				throw new Problem('invalid_body', { errors: [{ field: 'at', message: 'must not be in the future' }] });
			}
			const report = { chatId, isActive, ...(at === undefined ? {} : { at }) };
			await database.admit((turn) => inOrder(chatId, () => applySubscriptionReport(database, report, turn)), askedAt);
			return { ok: 'saved' as const };
		},
	});
}
