import { apiReference } from '@contacts/common/api-reference/api-reference.js';
import { watchedKeys } from '@contacts/common/auth/key-ring.sql.js';
import { authenticate } from '@contacts/common/http/authenticate.js';
import { health } from '@contacts/common/http/health.js';
import { Heartbeat } from '@contacts/common/http/heartbeat.js';
import { loadShedding } from '@contacts/common/http/load-shedding.js';
import { metrics } from '@contacts/common/http/metrics.js';
import { acceptJson, createServer, type Server } from '@contacts/common/http/server.js';
import { serviceVariables } from '@contacts/common/process/config.js';
import type { Service, ServiceParts } from '@contacts/common/process/run.js';
import { reference } from './reference.js';
import { setDirectSubscription } from './set-direct-subscription.js';
import { createUpsertBatcher } from './upsert-batcher.js';
import { upsertPersonalContact } from './upsert-personal-contact.js';

/** Builds the service. Plugins are registered in the order in which a request passes through them. */
export async function buildApp(parts: ServiceParts): Promise<Server> {
	const { serverOptions, database, poll, keyRing, registry, clock } = parts;
	const server = await createServer(serverOptions);
	acceptJson(server);
	await server.register(metrics, { registry, database, poll, keyRing });
	await server.register(health, { poll, writes: true });
	await server.register(apiReference, { reference: reference(), clock });

	const heartbeat = new Heartbeat(clock);
	server.addHook('onClose', async () => heartbeat.stop());
	const batcher = createUpsertBatcher({ database, registry });
	await server.register(async function internalApi(api) {
		await api.register(loadShedding, { database });
		await api.register(authenticate, { poll, keyRing, deadlineMs: database.deadlineMs, heartbeat });
		await api.register(upsertPersonalContact, { batcher });
		await api.register(setDirectSubscription, { database });
	});
	return server;
}

const variables = serviceVariables(3001);

export const service: Service<typeof variables> = {
	name: 'personal-contacts',
	callers: 'internal',
	watched: [watchedKeys],
	variables,
	buildApp,
};
