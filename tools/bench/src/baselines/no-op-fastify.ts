/**
 * The fastest that a Fastify route with the same validation can be: plain Fastify with its own JSON parser, the service's
 * schemas of query string, body and response, and its load shedding. No authentication, no log, no headers, no database.
 */
import { loadShedding } from '@contacts/common/http/load-shedding.js';
import { strictValidation } from '@contacts/common/http/server.js';
import { endpointQuery } from '@contacts/common/schemas/credentials.js';
import { body, response } from '@contacts/personal-contacts/upsert-personal-contact.js';
import fastify from 'fastify';

const schema = { querystring: endpointQuery({}), body, response: { 200: response } };
const server = fastify({
	keepAliveTimeout: 72_000,
	ajv: strictValidation,
});
server.get('/health/ready', async () => ({ status: 'ready' }));
await server.register(async (api) => {
	await api.register(loadShedding, { clock: () => performance.now(), database: { isFull: false } });
	api.post('/api/personal_contacts', { schema }, async () => ({ ok: 'saved' }));
});
await server.listen({ host: '127.0.0.1', port: Number(process.env.PORT) });

process.once('disconnect', () => process.exit(0));
