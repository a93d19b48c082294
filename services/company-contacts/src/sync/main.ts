import { systemClock } from '@contacts/bitrix24/clock.js';
import { openDatabase } from '@contacts/common/database/database.js';
import { health } from '@contacts/common/http/health.js';
import { createServer } from '@contacts/common/http/server.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { createRegistry, metrics } from '@contacts/common/observability/metrics.js';
import { startTracing } from '@contacts/common/observability/tracing.js';
import { ConfigError, readVariables } from '@contacts/common/process/config.js';
import closeWithGrace from 'close-with-grace';
import { measureSyncFreshness } from '../sync-freshness.js';
import { toCrmConfig, variables } from './config.js';
import { synchroniseForEver } from './loop.js';
import { createSyncMetrics } from './metrics.js';
import { webhook } from './webhook.js';

/** The synchroniser as a process of its own: the passes, the receiver of events where it is switched on, health and metrics. */
try {
	await start();
} catch (error) {
	const lines =
		error instanceof ConfigError
			? error.lines
			: [error instanceof Error ? (error.stack ?? error.message) : String(error)];
	process.stderr.write(`${lines.join('\n')}\n`);
	process.exit(1);
}

async function start(): Promise<void> {
	const values = readVariables(variables, process.env);
	const config = toCrmConfig(values);
	if (Array.isArray(config)) throw new ConfigError(config);

	const logger = createLogger({ name: 'company-contacts-sync', level: values.LOG_LEVEL });
	const registry = createRegistry();
	const database = openDatabase({ url: values.DATABASE_URL, applicationName: 'company-contacts-events', poolSize: 3 });
	const tracing = await startTracing({
		name: 'company-contacts-sync',
		environment: process.env,
		callers: 'public',
		logger,
	});
	const server = await createServer({ logger, tracing, trustProxy: values.TRUST_PROXY });
	await server.register(metrics, { registry, database });
	await server.register(health, { database, writes: true });
	measureSyncFreshness(registry, database);
	const token = values.BITRIX24_APPLICATION_TOKEN;
	if (token !== undefined)
		await server.register(webhook, { database, token, registry, clock: () => performance.now() });

	const stop = new AbortController();
	const counted = createSyncMetrics(registry);
	const loop = synchroniseForEver({
		...counted,
		databaseUrl: values.DATABASE_URL,
		config,
		intervalMs: values.BITRIX24_INTERVAL_SECONDS * 1000,
		clock: systemClock,
		logger,
		signal: stop.signal,
		onWaiting() {
			counted.onWaiting();
			logger.warn('another synchroniser works on this database: waiting until it ends');
		},
		onConfigurationDiffers({ differences }) {
			counted.onWaiting();
			logger.error(
				{ differences },
				'the mirror was made with another configuration: set it as it was, or run "contacts sync --remap" with this one',
			);
		},
	});
	const { close } = closeWithGrace(
		{ delay: values.SHUTDOWN_TIMEOUT_SECONDS * 1000, logger: false },
		async ({ err }) => {
			if (err) logger.fatal({ err }, 'unexpected error: stopping');
			// A page that is under way is finished or thrown away; the next start goes on behind the last one that was saved.
			stop.abort();
			await Promise.all([server.close(), loop]);
			await Promise.all([database.close(), tracing?.stop()]);
			logger.info('stopped');
		},
	);
	process.once('disconnect', close);
	await server.listen({ host: values.HOST, port: values.PORT });
}
