import fp from 'fastify-plugin';
import type { Database } from '../database/database.js';
import { DatabaseBusyError } from '../database/errors.js';
import { Problem } from './problems.js';

declare module 'fastify' {
	interface FastifyContextConfig {
		/** Machines request it every few seconds: its requests are logged at the level `debug` and not traced. */
		probe?: boolean;
	}
}

/** Options of a route that machines request every few seconds. */
export const probeRoute = { config: { probe: true, otel: false } } as const;

interface HealthOptions {
	database: Database;
	/** Whether the process writes, so that it is ready only while the database can be written. */
	writes?: boolean;
}

/**
 * Fails as a write does on a server that is read-only, so that the connections to it are replaced: without this no request
 * would come, because the process is not ready, and nothing would replace them.
 */
const failIfReadOnly = `
	do $$ begin
		if current_setting('transaction_read_only')::boolean then
			raise 'the server is read-only' using errcode = 'read_only_sql_transaction';
		end if;
	end $$`;

/**
 * `GET /health/live` says that the process responds, and never touches the database: restarting the service repairs no database.
 * `GET /health/ready` is 503 until the database responds, of a process that writes while the database can't be written, and
 * while shutting down: send no requests here. It stays ready while requests are shed.
 */
export const health = fp<HealthOptions>(async (server, { database, writes = false }) => {
	let closing = false;
	server.addHook('preClose', async () => {
		closing = true;
	});

	server.get('/health/live', probeRoute, async () => ({ status: 'live' }));
	server.get('/health/ready', probeRoute, async () => {
		if (closing) throw new Problem('overloaded');
		try {
			await database.query((sql) => sql.unsafe(writes ? failIfReadOnly : 'select 1'));
		} catch (error) {
			// The database works and this process has more than enough to do: taken out of service, it would leave that to others.
			if (error instanceof DatabaseBusyError) return { status: 'ready' };
			throw new Problem('database_error', { status: 503, cause: error });
		}
		return { status: 'ready' };
	});
});
