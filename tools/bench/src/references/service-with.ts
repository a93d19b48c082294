import { authenticate } from '@contacts/common/auth/authenticate.js';
import type { Database } from '@contacts/common/database/database.js';
import { health } from '@contacts/common/http/health.js';
import { loadShedding } from '@contacts/common/http/load-shedding.js';
import { createServer, type Server } from '@contacts/common/http/server.js';
import { metrics } from '@contacts/common/observability/metrics.js';
import { serviceVariables } from '@contacts/common/process/config.js';
import { runService } from '@contacts/common/process/run.js';
import { upsertSchema } from './upsert-schema.js';

export interface Upsert {
	chat_id: number;
	username?: string | null;
	name?: string | null;
	birth_date?: string | null;
}

/** Runs personal-contacts with all its features, but with another way to save a contact. */
export async function runServiceWith(
	save: (database: Database, contact: Upsert, projectId: number) => Promise<boolean>,
): Promise<void> {
	async function upsert(api: Server, { database }: { database: Database }): Promise<void> {
		api.route({
			method: 'POST',
			url: '/api/personal_contacts',
			schema: upsertSchema,
			async handler({ body, project }) {
				return { ok: (await save(database, body, project.id)) ? ('saved' as const) : ('skipped' as const) };
			},
		});
	}
	await runService(
		{
			name: 'personal-contacts',
			callers: 'internal',
			variables: serviceVariables(3001),
			async buildApp({ serverOptions, database, keyRing, registry }) {
				const server = await createServer(serverOptions);
				await server.register(metrics, { registry, database, keyRing });
				await server.register(health, { database });
				await server.register(async (api) => {
					await api.register(loadShedding, { clock: () => performance.now(), database });
					await api.register(authenticate, { keyRing });
					await api.register(upsert, { database });
				});
				return server;
			},
		},
		process.env,
	);
}
