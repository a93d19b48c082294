import { connect as openSocket, Socket } from 'node:net';
import postgres from 'postgres';
import { type DatabaseUrl, readDatabaseUrl } from './database-url.js';
import { timedOut, withTimeout } from './deadline.js';
import { type ConnectionOptions, findPrimary, hostOptions } from './find-primary.js';

/** The timeout for a host to accept a connection. The client's own timeout begins after that. */
const connectTimeoutMs = 2000;

const reachTimeoutMs = 5000;

/** What the tables are read and written with, whatever the defaults of the server, the database or the role are. */
const sessionSettings = { DateStyle: 'ISO, MDY', TimeZone: 'UTC' };

/**
 * A client for the database of a URL, with these options. It connects at the first statement.
 *
 * With several hosts, each connection first looks for the primary. The client's own search is not used: it treats a standby
 * as writable, waits for unresponsive hosts, and never reports that no host matches.
 *
 * @throws TypeError with the code ERR_INVALID_URL
 */
export function connect(url: string, options: ConnectionOptions): postgres.Sql {
	const address = readDatabaseUrl(url);
	const { hosts, database, ofFirstHost, sslMode } = address;
	const settings = {
		...options,
		...(database === '' ? {} : { database }),
		...hostOptions(hosts[0], sslMode),
		connection: { ...sessionSettings, ...options.connection },
	} as unknown as ConnectionOptions;
	if (hosts.length === 1) return postgres(ofFirstHost, settings);

	let ended = false;
	const sql = postgres(ofFirstHost, {
		...settings,
		socket: async () => {
			try {
				const socket = await socketTo(address, settings);
				// The client does not close a socket that it receives after it has ended.
				if (!ended) return socket;
				socket.destroy();
			} catch (error) {
				return failing(error);
			}
			return failing(new Error('the client was closed'));
		},
		// Not in the published types.
	} as ConnectionOptions);
	const { end } = sql;
	return Object.assign(sql, {
		async end(how?: { timeout?: number }) {
			await end(how);
			ended = true;
		},
	});
}

/** A client with one connection, which stays open until it is closed. It waits as long as `reach` does for a server. */
export function connectSingle(url: string, options: ConnectionOptions = {}): postgres.Sql {
	return connect(url, {
		max: 1,
		fetch_types: false,
		connect_timeout: reachTimeoutMs / 1000,
		idle_timeout: 0,
		max_lifetime: null,
		keep_alive: 15,
		onnotice: () => undefined,
		...options,
	});
}

/**
 * Opens the connection of a client without statement deadlines. If a peer accepts connections and closes them, as a load
 * balancer without a server does, the client alone would retry for ever.
 *
 * @throws Error with the code CONNECT_TIMEOUT after five seconds
 */
export async function reach(sql: postgres.Sql): Promise<void> {
	if ((await withTimeout(sql`select 1`, reachTimeoutMs)) !== timedOut) return;
	await sql.end({ timeout: 0 });
	throw Object.assign(new Error('no connection'), { code: 'CONNECT_TIMEOUT' });
}

/** A connected socket to the primary. */
async function socketTo(address: DatabaseUrl, options: ConnectionOptions): Promise<Socket> {
	const found = await findPrimary(address, options);
	// The client reads the name here, to compare it with the server's certificate.
	const socket = Object.assign(openSocket(found), found);
	return new Promise((resolve, reject) => {
		const expire = () => socket.destroy(Object.assign(new Error('no connection'), { code: 'CONNECT_TIMEOUT' }));
		const late = setTimeout(expire, connectTimeoutMs);
		socket.once('error', reject);
		socket.once('close', () => clearTimeout(late));
		socket.once('connect', () => {
			clearTimeout(late);
			socket.removeListener('error', reject);
			resolve(socket);
		});
	});
}

/** A socket that fails. Without a socket, the client would wait for ever. */
function failing(error: unknown): Socket {
	const socket = new Socket();
	setImmediate(() => socket.destroy(error instanceof Error ? error : new Error(String(error))));
	return socket;
}
