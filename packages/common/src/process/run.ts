import type { Static, TObject } from '@sinclair/typebox';
import closeWithGrace from 'close-with-grace';
import type { Registry } from 'prom-client';
import { type KeyRing, openKeyRing } from '../auth/key-ring.js';
import type { ServiceName } from '../auth/key-ring.sql.js';
import { type Database, openDatabase } from '../database/database.js';
import { DatabaseError, errorCode, isRefusal } from '../database/errors.js';
import type { Server, ServerOptions } from '../http/server.js';
import { createLogger } from '../observability/logger.js';
import { createRegistry } from '../observability/metrics.js';
import { type Callers, startTracing } from '../observability/tracing.js';
import { ConfigError, readVariables, type ServiceVariables } from './config.js';

/** What a service is built from: everything that it shares with the outside, so that tests build it in the same way. */
export interface ServiceParts {
	server: ServerOptions;
	database: Database;
	keyRing: KeyRing;
	registry: Registry;
	/** Milliseconds that never go back; without it, the process's own clock. */
	clock?: () => number;
}

export interface Service<Variables extends TObject> {
	name: ServiceName;
	callers: Callers;
	variables: Variables;
	buildApp(parts: ServiceParts, config: Static<Variables>): Promise<Server>;
}

/**
 * Runs a service as this process: configuration, database, keys, then listening, until a signal comes.
 *
 * A signal (or the end of the process that started this one with an IPC channel) stops it in order: no new connections, the
 * requests under way are answered, the database is closed, exit 0. A second signal, or the time limit, ends it at once with
 * exit 1. Whatever keeps it from starting is said in a line each on standard error, exit 1.
 */
export async function runService<Variables extends TObject>(
	service: Service<Variables>,
	environment: NodeJS.ProcessEnv,
): Promise<void> {
	try {
		await start(service, environment);
	} catch (error) {
		process.stderr.write(`${startFailure(error)}\n`);
		process.exit(1);
	}
}

async function start<Variables extends TObject>(
	service: Service<Variables>,
	environment: NodeJS.ProcessEnv,
): Promise<void> {
	const config = readVariables(service.variables, environment) as Static<Variables> & ServiceVariables;
	const logger = createLogger({ name: service.name, level: config.LOG_LEVEL });
	const tracing = await startTracing({ name: service.name, environment, callers: service.callers, logger });
	const database = openDatabase({
		url: config.DATABASE_URL,
		applicationName: service.name,
		poolSize: config.DATABASE_POOL_SIZE,
	});
	const keyRing = await openKeyRing(
		{
			database,
			service: service.name,
			onStateChange: (error) =>
				error === undefined
					? logger.info('keys are current again')
					: logger.error({ err: error }, 'keys could not be read'),
		},
		// A database that is away may come back; one that refuses this configuration will go on refusing it.
		(error) => error instanceof DatabaseError && !isRefusal(error.cause),
	);
	const server: ServerOptions = { logger, tracing, trustProxy: config.TRUST_PROXY };
	const app = await service.buildApp({ server, database, keyRing, registry: createRegistry() }, config);

	const { close } = closeWithGrace(
		{
			delay: config.SHUTDOWN_TIMEOUT_SECONDS * 1000,
			logger: {
				error: (message: unknown) => logger.fatal(typeof message === 'string' ? {} : { err: message }, String(message)),
			},
		},
		async ({ signal, err }) => {
			if (err) logger.fatal({ err }, 'unexpected error: stopping');
			else logger.info({ signal }, 'stopping');
			await app.close();
			await keyRing.stop();
			await Promise.all([database.close(), tracing?.stop()]);
			logger.info('stopped');
		},
	);
	process.once('disconnect', close);

	// Connections that wait to be taken: of more, the kernel tells nobody, and their clients try again after seconds.
	await app.listen({ host: config.HOST, port: config.PORT, backlog: 4096 });
}

/** Why the service did not start, for the person who started it. */
function startFailure(error: unknown): string {
	if (error instanceof ConfigError) return error.lines.join('\n');
	const cause = error instanceof DatabaseError ? error.cause : error;
	switch (errorCode(cause)) {
		case 'EADDRINUSE':
			return 'The port is in use by another process: set PORT to another one.';
		case 'EACCES':
			return 'The port may not be used by this user: set PORT to one above 1023.';
		case 'EADDRNOTAVAIL':
		case 'ENOTFOUND':
			return 'HOST is no address of this machine.';
		case '42P01':
			return 'The database has no tables yet: run "contacts migrate" first.';
		case '42501':
			return 'The database user of DATABASE_URL lacks rights: run "contacts migrate" and connect with the role of this service.';
		case '3D000':
			return 'The database that DATABASE_URL names does not exist.';
	}
	if (isRefusal(cause)) return 'The database refuses the user or the password in DATABASE_URL.';
	return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
