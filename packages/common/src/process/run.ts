import type { Static, TObject } from '@sinclair/typebox';
import closeWithGrace from 'close-with-grace';
import type { Registry } from 'prom-client';
import { type KeyRing, openKeyRing } from '../auth/key-ring.js';
import type { ServiceName } from '../auth/key-ring.sql.js';
import { type Database, openDatabase } from '../database/database.js';
import { classify, DatabaseError, describeDatabaseError, errorCode } from '../database/errors.js';
import { openStatePoll, type StatePoll } from '../database/state-poll.js';
import { type DatabaseSupport, databaseSupport, rejectUnsupported } from '../database/supported-database.sql.js';
import type { Server, ServerOptions } from '../http/server.js';
import { createLogger } from '../observability/logger.js';
import { createRegistry } from '../observability/metrics.js';
import { type Callers, startTracing } from '../observability/tracing.js';
import { ConfigError, readTracing, readVariables, type ServiceVariables } from './config.js';
import { version } from './version.js';

/** The pool size of a program whose requests need few connections. */
const backgroundPoolSize = 3;

/** The variables of every program. */
type ProgramVariables = Omit<ServiceVariables, 'DATABASE_POOL_SIZE'> & { DATABASE_POOL_SIZE?: number };

/**
 * The dependencies of a service. They include everything that it shares with the outside, so that tests build it in the
 * same way.
 */
export interface ServiceParts {
	serverOptions: ServerOptions;
	database: Database;
	/** The state of the same database. */
	poll: StatePoll;
	keyRing: KeyRing;
	registry: Registry;
	/** A monotonic clock in milliseconds. */
	clock: () => number;
}

/** A process that listens: a service, or the synchroniser. */
interface Program<Parts, Name extends string, Variables extends TObject> {
	name: Name;
	callers: Callers;
	/** See `StatePollOptions`. */
	watched: readonly string[];
	variables: Variables;
	buildApp(parts: Parts, config: Static<Variables>): Promise<Server>;
}

export type Service<Variables extends TObject> = Program<ServiceParts, ServiceName, Variables>;

/** Runs a service as this process, with a key ring for its callers. */
export function runService<Variables extends TObject>(
	service: Service<Variables>,
	environment: NodeJS.ProcessEnv,
): Promise<void> {
	return runProgram(
		{
			...service,
			async buildApp(parts, config) {
				const keyRing = await openKeyRing({ ...parts, service: service.name });
				const app = await service.buildApp({ ...parts, keyRing }, config);
				app.addHook('onClose', () => keyRing.stop());
				return app;
			},
		},
		environment,
	);
}

/**
 * Runs a program as this process: it reads the configuration, opens the database, and listens until a signal.
 *
 * A signal stops it gracefully, and so does the end of a parent process that started it with an IPC channel. It accepts no
 * new connections, finishes running requests, closes the database and exits with 0. A second signal, or the time limit,
 * ends it at once with exit code 1. If it can't start, it prints one line for each problem on standard error and exits with
 * 1.
 */
export async function runProgram<Variables extends TObject>(
	program: Program<Omit<ServiceParts, 'keyRing'>, string, Variables>,
	environment: NodeJS.ProcessEnv,
): Promise<void> {
	try {
		await start(program, environment);
	} catch (error) {
		process.stderr.write(`${describeStartFailure(error)}\n`);
		process.exit(1);
	}
}

async function start<Variables extends TObject>(
	program: Program<Omit<ServiceParts, 'keyRing'>, string, Variables>,
	environment: NodeJS.ProcessEnv,
): Promise<void> {
	const { name, callers } = program;
	const config = readVariables(program.variables, environment) as Static<Variables> & ProgramVariables;
	const logger = createLogger({ name, level: config.LOG_LEVEL });
	// Node writes plain text to standard error, and programs that read the log expect JSON.
	process.removeAllListeners('warning').on('warning', (warning) => logger.warn({ err: warning }, 'warning of Node.js'));
	const tracing = readTracing(environment) ? await startTracing(name, callers, logger) : undefined;
	const clock = () => performance.now();
	const database = openDatabase({
		url: config.DATABASE_URL,
		applicationName: name,
		clock,
		poolSize: config.DATABASE_POOL_SIZE ?? backgroundPoolSize,
	});
	const poll = openStatePoll({
		url: config.DATABASE_URL,
		applicationName: name,
		clock,
		watched: program.watched,
		onReconnect: () => database.renew(),
		onStateChange: (error) =>
			error === undefined
				? logger.info('the database responds again')
				: logger.error({ err: error }, 'the database does not respond'),
	});
	const serverOptions: ServerOptions = { logger, tracing, trustProxy: config.TRUST_PROXY };
	// At once: a database that does not respond must not delay the start twice.
	const [support, built] = await Promise.allSettled([
		checkSupport(database),
		program.buildApp({ serverOptions, database, poll, registry: createRegistry(version), clock }, config),
	]);
	if (support.status === 'rejected') throw support.reason;
	if (built.status === 'rejected') throw built.reason;
	const app = built.value;

	const { close } = closeWithGrace(
		{
			delay: config.SHUTDOWN_TIMEOUT_SECONDS * 1000,
			logger: {
				error: (problem: unknown) =>
					typeof problem === 'string'
						? logger.fatal(problem)
						: logger.fatal({ err: problem }, 'unexpected error while stopping'),
			},
		},
		async ({ signal, err }) => {
			if (err) logger.fatal({ err }, 'unexpected error: stopping');
			else logger.info({ signal }, 'stopping');
			await app.close();
			await Promise.all([poll.close(), database.close(), tracing?.stop()]);
			logger.info('stopped');
		},
	);
	// The backlog of connections that wait to be accepted. Beyond it, the kernel drops connection requests, and clients
	// retry after seconds.
	await app.listen({ host: config.HOST, port: config.PORT, backlog: 4096 });
	// The parent process may have ended already.
	if (process.connected === false) void close();
	else process.once('disconnect', close);
}

/** @throws UnsupportedDatabaseError; never because the database can't be reached */
async function checkSupport(database: Database): Promise<void> {
	const rows = await database
		.query((sql) => sql<DatabaseSupport[]>`${sql.unsafe(databaseSupport)}`)
		.catch((error: unknown) => {
			if (classify(error).isPermanent) throw error;
			return [];
		});
	for (const row of rows) rejectUnsupported(row);
}

const wrongHost = 'HOST is no address of this machine.';

/** Why the program did not start, by the code of the error. */
const startFailures: Record<string, string> = {
	EADDRINUSE: 'The port is in use by another process: set PORT to another one.',
	EACCES: 'The port may not be used by this user: set PORT to one above 1023.',
	EADDRNOTAVAIL: wrongHost,
	EAFNOSUPPORT: wrongHost,
	EAI_AGAIN: wrongHost,
	EINVAL: wrongHost,
	ENOTFOUND: wrongHost,
};

/** Why the program did not start, for the person who started it. */
function describeStartFailure(error: unknown): string {
	if (error instanceof ConfigError) return error.lines.join('\n');
	const cause = error instanceof DatabaseError ? error.cause : error;
	const known = startFailures[String(errorCode(cause))] ?? describeDatabaseError(cause, 'service');
	return known ?? (error instanceof Error ? (error.stack ?? error.message) : String(error));
}
