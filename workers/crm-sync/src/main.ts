import { describeHolder } from '@contacts/common/database/advisory-lock.sql.js';
import { classify } from '@contacts/common/database/errors.js';
import { health } from '@contacts/common/http/health.js';
import { metrics } from '@contacts/common/http/metrics.js';
import { createServer } from '@contacts/common/http/server.js';
import { runProgram } from '@contacts/common/process/run.js';
import { systemClock } from './clock.js';
import { toCrmConfig, variables } from './config.js';
import { synchronise } from './loop.js';
import { createSyncMetrics, measureMirror } from './metrics.js';
import { readState } from './mirror/state.sql.js';
import { webhook } from './webhook.js';

/** The synchroniser as a separate process: the runs, the webhook if it has a token, health and metrics. */
await runProgram(
	{
		name: 'crm-sync',
		callers: 'public',
		variables,
		watched: [],
		async buildApp({ serverOptions, database, poll, registry }, values) {
			const config = toCrmConfig(values);
			// A wrong password or a missing schema ends the start; an unreachable database does not.
			await database.query(readState).catch((error: unknown) => {
				if (classify(error).isPermanent) throw error;
			});

			const { logger } = serverOptions;
			const server = await createServer(serverOptions);
			await server.register(metrics, { registry, database, poll });
			await server.register(health, { poll, writes: true });
			measureMirror(registry, database);
			const token = values.BITRIX24_APPLICATION_TOKEN;
			if (token !== undefined)
				await server.register(webhook, { database, token, registry, clock: () => performance.now() });

			const stop = new AbortController();
			const metricCallbacks = createSyncMetrics(registry, config.intervalMs);
			const loop = synchronise({
				...metricCallbacks,
				databaseUrl: values.DATABASE_URL,
				config,
				clock: systemClock,
				logger,
				signal: stop.signal,
				onWaiting(holder) {
					metricCallbacks.onWaiting();
					logger.warn(
						{ holder },
						`the lock of the synchroniser is held by ${describeHolder(holder)}: waiting until it ends`,
					);
				},
				onConfigurationDiffers({ differences }) {
					metricCallbacks.onWaiting();
					logger.error(
						{ differences },
						'the mirror was made with another configuration: set it as it was, or run "contacts sync --remap" with this one',
					);
				},
			});
			// What it knew may be wrong without its session. What has started this process starts the next one.
			loop.catch((error: unknown) => {
				const reason = error instanceof Error ? error.message : String(error);
				process.stderr.write(`The synchroniser ends, to be started again: ${reason}.\n`);
				process.exit(1);
			});
			// The current page is finished or discarded. The next start continues after the last saved page.
			server.addHook('preClose', async () => stop.abort());
			server.addHook('onClose', () => loop);
			return server;
		},
	},
	process.env,
);
