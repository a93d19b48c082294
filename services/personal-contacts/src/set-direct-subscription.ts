import type { Database } from '@contacts/common/database/database.js';
import { Problem } from '@contacts/common/http/problems.js';
import type { Server } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { nonZeroInteger, readTimestamp } from '@contacts/common/schemas/fields.js';
import { Type } from '@sinclair/typebox';
import fp from 'fastify-plugin';
import { applySubscriptionReport } from './direct-subscriptions.sql.js';

const body = Type.Object(
	{
		chat_id: nonZeroInteger({ description: 'ID of the personal chat, not 0.', examples: [5550001] }),
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

const response = Type.Object(
	{ ok: Type.Literal('saved') },
	{
		$id: 'Saved',
		description: 'The report is durably committed, even if it changed nothing.',
	},
);

const examples = {
	body: {
		subscribed: { summary: 'The chat has subscribed', value: { chat_id: 5550001, active: true } },
		left: {
			summary: 'The chat has left, at this time',
			value: { chat_id: 5550001, active: false, at: '2026-05-17T12:00:00Z' },
		},
	},
	response: { saved: { summary: 'The report was applied', value: { ok: 'saved' } } },
};

const description = `
Send it as soon as a chat subscribes to the bot directly (\`"active": true\`) or leaves it (\`false\`): while the subscription is
active, saving a user of the chat is \`skipped\`, from the response to this request on.

It is idempotent: \`true\` for an active subscription, and \`false\` if none is active, change nothing. The requests for one chat count
in the order in which they were sent, and **the last one decides**, whatever its \`at\` says.

\`at\` says only since when. A time that is more than a second in the future gets a 400. A subscription ends no earlier than it started:
an earlier \`at\` counts as its start. An operator can plan the end of a subscription. \`true\` removes a planned end, and \`false\` ends
the subscription now.
`.trim();

/** How far the clock of the bot's backend may be ahead, in milliseconds. Such a time counts as now. */
const maxClockLeadMs = 1000;

async function route(api: Server, { database }: { database: Database }): Promise<void> {
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
			summary: 'Report that a chat subscribes to the bot directly, or leaves it',
			description,
			querystring: endpointQuery({}),
			body,
			response: { 200: response },
		},
		config: { examples },
		async handler({ body: { chat_id: chatId, active: isActive, at: text }, deadline }) {
			const at = text === undefined ? undefined : readTimestamp(text);
			if (at !== undefined && at > Date.now() + maxClockLeadMs) {
				throw new Problem('invalid_body', { errors: [{ field: 'at', message: 'must not be in the future' }] });
			}
			const report = { chatId, isActive, ...(at === undefined ? {} : { at }) };
			await database.admit(() => inOrder(chatId, () => applySubscriptionReport(database, report, deadline)));
			return { ok: 'saved' as const };
		},
	});
}

/** `POST /api/direct_subscriptions`: records that a chat subscribes to the bot directly, or leaves it. */
export const setDirectSubscription = fp(route, {
	name: 'direct_subscriptions.set',
	fastify: '5.x',
	encapsulate: true,
	dependencies: ['authenticate'],
});
