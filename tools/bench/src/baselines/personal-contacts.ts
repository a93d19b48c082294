/**
 * personal-contacts with all its features, but with another way to save a contact.
 *
 * node personal-contacts.js nothing | one-statement
 */
import { authenticate } from '@contacts/common/auth/authenticate.js';
import { health } from '@contacts/common/http/health.js';
import { loadShedding } from '@contacts/common/http/load-shedding.js';
import { createServer } from '@contacts/common/http/server.js';
import { metrics } from '@contacts/common/observability/metrics.js';
import { runService } from '@contacts/common/process/run.js';
import { service } from '@contacts/personal-contacts/app.js';
import { upsertPersonalContact } from '@contacts/personal-contacts/upsert-personal-contact.js';
import { runSingleStatement } from './single-statement.sql.js';

const savesNothing = process.argv[2] === 'nothing';

await runService(
	{
		...service,
		async buildApp({ serverOptions, database, keyRing, registry }) {
			const server = await createServer(serverOptions);
			await server.register(metrics, { registry, database, keyRing });
			await server.register(health, { database });
			await server.register(async (api) => {
				await api.register(loadShedding, { clock: () => performance.now(), database });
				await api.register(authenticate, { keyRing });
				await api.register(upsertPersonalContact, {
					batcher: {
						async save({ contact, projectId }) {
							if (savesNothing) return true;
							const values = {
								...contact,
								project_id: projectId,
								has_username: contact.username !== undefined,
								has_name: contact.name !== undefined,
								has_birth_date: contact.birth_date !== undefined,
							};
							return (await database.query((sql) => runSingleStatement(sql, values))).length > 0;
						},
					},
				});
			});
			return server;
		},
	},
	process.env,
);
