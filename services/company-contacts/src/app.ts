import { apiReference } from '@contacts/common/api-reference/api-reference.js';
import { watchedKeys } from '@contacts/common/auth/key-ring.sql.js';
import { authenticate } from '@contacts/common/http/authenticate.js';
import { health } from '@contacts/common/http/health.js';
import { limitFailures } from '@contacts/common/http/limit-failures.js';
import { loadShedding } from '@contacts/common/http/load-shedding.js';
import { metrics } from '@contacts/common/http/metrics.js';
import { createServer, type Server } from '@contacts/common/http/server.js';
import type { Service, ServiceParts } from '@contacts/common/process/run.js';
import { createChangeFeed } from './changes/change-feed.js';
import { listChanges } from './changes/list-changes.js';
import { type Config, variables } from './config.js';
import { watchedContacts } from './contacts-state.sql.js';
import { createListCache } from './list-cache.js';
import { listCompanyContacts } from './list-company-contacts.js';
import { limitProjects } from './rate-limit/limit-projects.js';
import { reference } from './reference.js';
import { sendProblemOrLeaveToGateway } from './responses-without-key.js';
import { sandbox } from './sandbox/sandbox.js';

const bytesPerMegabyte = 1_048_576;

/** Builds the service. Plugins are registered in the order in which a request passes through them. */
export async function buildApp(parts: ServiceParts, config: Config): Promise<Server> {
	const { serverOptions, database, poll, keyRing, registry, clock } = parts;
	const policy = { perSecond: config.RATE_LIMIT_PER_SECOND, burst: config.RATE_LIMIT_BURST };

	const cache = createListCache({
		database,
		poll,
		registry,
		maxBytes: config.LIST_CACHE_MEGABYTES * bytesPerMegabyte,
		maxListBytes: config.LIST_STREAM_MEGABYTES * bytesPerMegabyte,
	});
	const feed = createChangeFeed({ database, poll, registry });

	const server = await createServer(serverOptions);
	await server.register(metrics, { registry, database, poll, keyRing });
	await server.register(health, { poll });
	await server.register(apiReference, { reference: reference(policy), clock });

	await server.register(async function publicApi(api) {
		api.setErrorHandler(sendProblemOrLeaveToGateway);
		await api.register(loadShedding);
		await api.register(authenticate, {
			poll,
			keyRing,
			deadlineMs: database.deadlineMs,
			onFailure: limitFailures(policy, registry, clock),
		});
		await api.register(limitProjects, { policy, redisUrl: config.REDIS_URL, registry, clock });
		await api.register(sandbox);
		await api.register(listCompanyContacts, { cache, database, poll, keyRing });
		await api.register(listChanges, { feed });
	});
	return server;
}

export const service: Service<typeof variables> = {
	name: 'company-contacts',
	callers: 'public',
	watched: [watchedKeys, watchedContacts],
	variables,
	buildApp,
};
