import fp from 'fastify-plugin';
import type { KeyRing } from '../auth/key-ring.js';
import type { Database } from '../database/database.js';
import { DatabaseBusyError } from '../database/errors.js';
import { probeRoute } from '../observability/logger.js';
import { Problem } from './problems.js';

interface HealthOptions {
	database: Database;
	/** The key ring of a service that authenticates: without keys, it can't respond to any request. */
	keyRing?: KeyRing;
	/** Whether the process writes. If so, it is ready only while the database is writable. */
	writes?: boolean;
}

/**
 * Fails like a write on a read-only server, so that the connections to it are replaced. Otherwise nothing would replace
 * them, because a process that is not ready receives no requests.
 */
const failIfReadOnly = `
	do $$ begin
		if current_setting('transaction_read_only')::boolean then
			raise 'the server is read-only' using errcode = 'read_only_sql_transaction';
		end if;
	end $$`;

/**
 * `GET /health/live` reports that the process responds. It never uses the database, because a restart of the service can't
 * fix a database. `GET /health/ready` returns 503 until the database responds and the keys were loaded, and during a shutdown:
 * then send no requests here. A process that writes also returns 503 while the database is read-only. It stays ready while it sheds load.
 */
export const health = fp<HealthOptions>(
	async (server, { database, keyRing, writes = false }) => {
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
				// The database works, and this process is overloaded. If it were taken out of service, its load would move to the
				// others.
				if (!(error instanceof DatabaseBusyError)) throw new Problem('database_error', { status: 503, cause: error });
			}
			if (keyRing !== undefined && keyRing.refreshedAt === undefined) {
				throw new Problem('database_error', { status: 503, cause: new Error('no keys could be loaded yet') });
			}
			return { status: 'ready' };
		});
	},
	{ name: 'health', fastify: '5.x' },
);
