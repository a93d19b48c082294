import fp from 'fastify-plugin';
import type { StatePoll } from '../database/state-poll.js';
import { Problem } from './problems.js';
import { probeRoute } from './request-log.js';

interface HealthOptions {
	poll: StatePoll;
	/** Whether the process writes. If so, it is ready only while the database is writable. */
	writes?: boolean;
}

/** The maximum time for which a probe waits for the database. */
const maxWaitMs = 4000;

/**
 * `GET /health/live` reports that the process responds. It never uses the database, because a restart of the service can't
 * fix a database. `GET /health/ready` returns 503 while the state of the database can't be confirmed, which includes the keys, and
 * during a shutdown: then send no requests here. A process that writes also returns 503 while the database is read-only. It
 * stays ready while it sheds load.
 */
export const health = fp<HealthOptions>(
	async (server, { poll, writes = false }) => {
		let closing = false;
		server.addHook('preClose', async () => {
			closing = true;
		});

		server.get('/health/live', probeRoute, async () => ({ status: 'live' }));
		server.get('/health/ready', probeRoute, async () => {
			if (closing) throw new Problem('overloaded');
			const state = await poll.confirm(maxWaitMs).catch((cause: unknown) => {
				throw new Problem('database_error', { status: 503, cause });
			});
			if (writes && state.readOnly) {
				// Sessions that begin now may be writable.
				poll.reconnect();
				throw new Problem('database_error', { status: 503, cause: new Error('the database is read-only') });
			}
			return { status: 'ready' };
		});
	},
	{ name: 'health', fastify: '5.x' },
);
