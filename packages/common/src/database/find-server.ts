import postgres from 'postgres';
import type { DatabaseUrl, Host, Target } from './database-url.js';
import { timedOut, withTimeout } from './deadline.js';
import { classify } from './errors.js';

/** The client's options. */
export type ConnectionOptions = postgres.Options<Record<string, postgres.PostgresType>>;

/** The deadline of a server's response. */
const probeTimeoutMs = 2000;

interface ServerState {
	standby: boolean;
	/** A standby always is. */
	readOnly: boolean;
}

/** Which servers are preferred for each target. */
const suits: Record<Target, (server: ServerState) => boolean> = {
	any: () => true,
	'read-write': ({ readOnly }) => !readOnly,
	'read-only': ({ readOnly }) => readOnly,
	primary: ({ standby }) => !standby,
	standby: ({ standby }) => standby,
	'prefer-standby': ({ standby }) => standby,
};

/** No server in the URL matches its `target_session_attrs`. */
class NoServerError extends Error {
	override name = 'NoServerError';
	readonly code = 'NO_SUITABLE_SERVER';
	constructor(target: Target, states: string[]) {
		super(`no server for target_session_attrs=${target}: ${states.join('; ')}`);
	}
}

/** Running searches, by URL. Connections that are opened at the same time share one. */
const searches = new Map<string, Promise<Host>>();

/**
 * Asks all hosts of a URL for their state at once, so that an unresponsive host delays nobody.
 *
 * @returns the first host that matches. For `any`, and for `prefer-standby` without a standby: the first in the URL's order
 *   that responds
 * @throws NoServerError
 * @throws the server's error when all hosts refuse the user, the password or the database
 */
export function findServer(address: DatabaseUrl, options: ConnectionOptions): Promise<Host> {
	const key = JSON.stringify([address.target, address.hosts, address.ofFirstHost]);
	let search = searches.get(key);
	if (search === undefined) {
		search = choose(address, options).finally(() => searches.delete(key));
		searches.set(key, search);
	}
	return search;
}

async function choose({ hosts, target, ofFirstHost }: DatabaseUrl, options: ConnectionOptions): Promise<Host> {
	const states = hosts.map((host) => ask(host, ofFirstHost, options));
	const choices = states.map(async (asked, index) => {
		const state = await asked;
		if (suits[target](state)) return hosts[index] as Host;
		throw new Error(state.standby ? 'is a standby' : state.readOnly ? 'is read-only' : 'is writable');
	});
	const settled = Promise.allSettled(choices);
	if (target !== 'any') {
		const first = await Promise.any(choices).catch(() => undefined);
		if (first !== undefined) return first;
	}
	if (target === 'any' || target === 'prefer-standby') {
		for (const [index, state] of states.entries()) {
			if ((await state.catch(() => undefined)) !== undefined) return hosts[index] as Host;
		}
	}
	const reasons = (await settled).map((choice) => (choice.status === 'rejected' ? choice.reason : undefined));
	if (reasons.every((reason) => classify(reason).isPermanent)) throw reasons[0];
	throw new NoServerError(
		target,
		hosts.map(({ host, port }, index) => {
			const name = host.includes(':') ? `[${host}]` : host;
			return `${name}:${port} ${describe(reasons[index])}`;
		}),
	);
}

/** Connects to one host and asks for its state. */
async function ask({ host, port }: Host, url: string, options: ConnectionOptions): Promise<ServerState> {
	const sql = postgres(url, {
		...options,
		// Passes lists, which the published types lack. The client would split an IPv6 address in a string.
		host: [host],
		port: [port],
		max: 1,
		connect_timeout: probeTimeoutMs / 1000,
		onclose: () => undefined,
	} as unknown as ConnectionOptions);
	try {
		const rows = sql<[ServerState]>`
			select pg_is_in_recovery() as standby, current_setting('transaction_read_only')::boolean as "readOnly"`;
		const response = await withTimeout(rows, probeTimeoutMs);
		if (response === timedOut) throw new Error('does not respond');
		return response[0];
	} finally {
		void sql.end({ timeout: 0 }).catch(() => undefined);
	}
}

function describe(reason: unknown): string {
	const { code, message } = reason as { code?: unknown; message?: unknown };
	return typeof code === 'string' ? `(${code})` : String(message);
}
