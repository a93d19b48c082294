import postgres from 'postgres';
import type { DatabaseUrl, Host } from './database-url.js';
import { timedOut, withTimeout } from './deadline.js';
import { classify } from './errors.js';

/** The client's options. */
export type ConnectionOptions = postgres.Options<Record<string, postgres.PostgresType>>;

/** The timeout of a server's response. */
const probeTimeoutMs = 2000;

/** None of the hosts of the URL is the primary. The message names each with the reason. */
class NoPrimaryError extends Error {
	override name = 'NoPrimaryError';
	readonly code = 'NO_SUITABLE_SERVER';
	constructor(hosts: readonly Host[], reasons: readonly unknown[]) {
		const states = hosts.map(({ host, port }, index) => {
			const name = host.includes(':') ? `[${host}]` : host;
			return `${name}:${port} ${describe(reasons[index])}`;
		});
		super(`none of its hosts is the primary: ${states.join('; ')}`);
	}
}

/** The options of a client that connects to this host. */
export function hostOptions({ host, port }: Host, sslMode: string | null): ConnectionOptions {
	return {
		// Lists, which the published types lack. The client would split an IPv6 address in a string.
		host: [host],
		port: [port],
		// As in libpq, verify-ca accepts a certificate for another name, and a socket has no TLS.
		...(sslMode === 'verify-ca' ? { ssl: { checkServerIdentity: () => undefined } } : {}),
		...(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}`, ssl: false } : {}),
	} as unknown as ConnectionOptions;
}

/** Running searches, by URL. Connections that are opened at the same time share one. */
const searches = new Map<string, Promise<Host>>();

/**
 * Asks all hosts of a URL at once which of them is the primary, so that an unresponsive host delays nobody.
 *
 * @throws NoPrimaryError
 * @throws the server's error when all hosts refuse the user, the password or the database
 */
export function findPrimary(address: DatabaseUrl, options: ConnectionOptions): Promise<Host> {
	const key = JSON.stringify([address.hosts, address.ofFirstHost]);
	let search = searches.get(key);
	if (search === undefined) {
		search = choose(address, options).finally(() => searches.delete(key));
		searches.set(key, search);
	}
	return search;
}

async function choose(address: DatabaseUrl, options: ConnectionOptions): Promise<Host> {
	const { hosts } = address;
	try {
		return await Promise.any(hosts.map((host) => requirePrimary(host, address, options)));
	} catch (error) {
		const reasons = (error as AggregateError).errors as unknown[];
		if (reasons.every((reason) => classify(reason).isPermanent)) throw reasons[0];
		throw new NoPrimaryError(hosts, reasons);
	}
}

/** Connects to one host, and rejects unless it is the primary and can be written. */
async function requirePrimary(
	host: Host,
	{ ofFirstHost, sslMode }: DatabaseUrl,
	options: ConnectionOptions,
): Promise<Host> {
	const sql = postgres(ofFirstHost, {
		...options,
		...hostOptions(host, sslMode),
		max: 1,
		connect_timeout: probeTimeoutMs / 1000,
		onclose: () => undefined,
	});
	try {
		const response = await withTimeout(
			sql<[{ standby: boolean; readOnly: boolean }]>`
				select pg_is_in_recovery() as standby, current_setting('transaction_read_only')::boolean as "readOnly"`,
			probeTimeoutMs,
		);
		if (response === timedOut) throw new Error('does not respond');
		const [{ standby, readOnly }] = response;
		if (standby) throw new Error('is a standby');
		if (readOnly) throw new Error('is read-only');
		return host;
	} finally {
		void sql.end({ timeout: 0 }).catch(() => undefined);
	}
}

function describe(reason: unknown): string {
	const { code, message } = reason as { code?: unknown; message?: unknown };
	return typeof code === 'string' ? `(${code})` : String(message);
}
