import fp from 'fastify-plugin';
import type { Database } from './database/database.js';
import { DatabaseBusyError } from './database/errors.js';
import { Problem } from './problems.js';
import { quietRoute } from './quiet-routes.js';

export interface HealthOptions {
	database: Database;
}

/**
 * `GET /health/live` tells that the process answers and never touches the database: restarting the service mends no database.
 * `GET /health/ready` is 503 until the database answers and while shutting down: send no requests here.
 * It stays ready while requests are shed.
 */
export const health = fp<HealthOptions>(async (server, { database }) => {
	let closing = false;
	server.addHook('preClose', async () => {
		closing = true;
	});

	server.get('/health/live', quietRoute, async () => ({ status: 'live' }));
	server.get('/health/ready', quietRoute, async () => {
		if (closing) throw new Problem('overloaded');
		try {
			await database.query((sql) => sql`select 1`);
		} catch (error) {
			// The database works and this process has more than enough to do: taken out of service, it would leave that to others.
			if (error instanceof DatabaseBusyError) return { status: 'ready' };
			throw new Problem('database_error', { status: 503, cause: error });
		}
		return { status: 'ready' };
	});
});
