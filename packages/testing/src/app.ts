import { hashKey } from '@contacts/common/auth/api-key.js';
import { type KeyRing, openKeyRing } from '@contacts/common/auth/key-ring.js';
import { insertKey, insertProject, type NewKey } from '@contacts/common/auth/projects.sql.js';
import type { Sql } from '@contacts/common/database/client.js';
import { type Database, type DatabaseOptions, openDatabase } from '@contacts/common/database/database.js';
import { openStatePoll, type StatePoll, type StatePollOptions } from '@contacts/common/database/state-poll.js';
import type { ServerLimits, ServerOptions } from '@contacts/common/http/server.js';
import { createLogger } from '@contacts/common/observability/logger.js';
import { readVariables } from '@contacts/common/process/config.js';
import type { Service } from '@contacts/common/process/run.js';
import { urlAs } from '@contacts/migrations/roles.js';
import type { TObject } from '@sinclair/typebox';
import { Registry } from 'prom-client';
import { rolePassword } from './database.js';
import { exchangeText } from './raw-http.js';

export interface TestAppOptions {
	/** The database of requests. */
	database?: Partial<DatabaseOptions>;
	/** The URL for the poll alone, which also takes the role of the service. Default: the test's own database. */
	pollUrl?: string;
	/** The interval and the clock of the poll. */
	poll?: Pick<StatePollOptions, 'intervalMs' | 'clock'>;
	limits?: Partial<ServerLimits>;
	trustProxy?: string[];
	environment?: Record<string, string>;
	/** The current time for the expiry of keys, in milliseconds since the epoch. */
	now?: () => number;
	/** A monotonic clock for limits, in milliseconds. */
	clock?: () => number;
}

export interface TestApp {
	url: string;
	/** Everything that was logged, at every level. */
	log: string[];
	keyRing: KeyRing;
	/** It watches the keys, and what else the service does. */
	poll: StatePoll;
	registry: Registry;
	/** The database of requests. */
	database: Database;
	fetch(path: string, init?: RequestInit): Promise<Response>;
	/** Sends raw bytes, and returns everything that the server sends until it closes the connection. */
	raw(...pieces: (string | Buffer)[]): Promise<string>;
	close(): Promise<void>;
}

/** A service like in production, built by the same `buildApp`, with its own database role. It listens on a free port. */
export async function startTestApp<V extends TObject>(
	service: Service<V>,
	url: string,
	options: TestAppOptions = {},
): Promise<TestApp> {
	const log: string[] = [];
	const logger = createLogger({
		name: service.name,
		level: 'trace',
		destination: { write: (line: string) => void log.push(line) },
	});
	const roleUrl = urlAs(url, service.name, rolePassword);
	const { clock = () => performance.now() } = options;
	const database: Database = openDatabase({
		url: roleUrl,
		applicationName: 'test',
		poolSize: 4,
		clock,
		...options.database,
	});
	const poll = openStatePoll({
		url: urlAs(options.pollUrl ?? url, service.name, rolePassword),
		applicationName: 'test poll',
		watched: service.watched,
		onReconnect: () => database.renew(),
		clock,
		...options.poll,
	});
	const keyRing = await openKeyRing({
		poll,
		database,
		service: service.name,
		...(options.now ? { now: options.now } : {}),
	});
	const registry = new Registry();
	const serverOptions: ServerOptions = {
		logger,
		...(options.limits ? { limits: options.limits } : {}),
		...(options.trustProxy ? { trustProxy: options.trustProxy } : {}),
	};
	const config = readVariables(service.variables, { DATABASE_URL: url, ...options.environment });
	const app = await service.buildApp({ serverOptions, database, poll, keyRing, registry, clock }, config);
	const address = await app.listen({ host: '127.0.0.1', port: 0 });
	return {
		url: address,
		log,
		keyRing,
		poll,
		registry,
		database,
		fetch: (path, init) => fetch(address + path, { redirect: 'manual', ...init }),
		raw: (...pieces) => exchangeText(address, ...pieces),
		async close() {
			await app.close();
			await keyRing.stop();
			await Promise.all([poll.close(), database.close()]);
		},
	};
}

/** A project with one key. */
export async function addProject(sql: Sql, code: string, key: string, rest: Partial<NewKey> = {}): Promise<void> {
	await insertProject(sql, code);
	await insertKey(sql, { project: code, hash: hashKey(key), ...rest });
}

/** Revokes all keys of a project. */
export async function revokeKeysOf(sql: Sql, project: string): Promise<void> {
	await sql`
		update api_keys set revoked_at = now() where project_id = (select id from projects where code = ${project})`;
}
