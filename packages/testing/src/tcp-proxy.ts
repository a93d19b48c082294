import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A network between clients and a server that can fail like a real network. */
export interface TcpProxy {
	/** The number of connections accepted so far. */
	readonly taken: number;
	/** The number of connections that were open when they were last stopped and on which a client has sent something since. */
	readonly held: number;
	/** How many pieces of data were forwarded late so far, by a slow network. */
	readonly late: number;
	/** How many open connections were cut so far. */
	readonly reset: number;
	/** The same URL, but through this proxy. */
	through(url: string): string;
	/** Closes all connections and refuses new ones. */
	cut(): void;
	/** Refuses new connections. Open connections continue. */
	refuse(): void;
	/** Accepts new connections and closes them at once, like a load balancer without a server. Closes open connections. */
	hangUp(): void;
	/**
	 * Forwards nothing and closes nothing, but accepts new connections. All connections of this time stay unresponsive. After half a
	 * minute the server ends them, as with its keepalives, which the proxy answers.
	 */
	blackhole(): void;
	/** Stops forwarding, but accepts new connections. All data arrives after `restore`. */
	stall(): void;
	/** Stops forwarding on open connections. New ones work. All data arrives after `restore`. */
	holdBack(): void;
	/** Stops forwarding responses on open connections, but forwards requests. The responses arrive after `restore`. */
	holdResponses(): void;
	/** Stops forwarding on connections that are opened from now on. Open connections continue. */
	holdNew(): void;
	/** Delays all data and the end of a connection by this many milliseconds, in both directions. */
	slow(milliseconds: number): void;
	/** Connects new connections to the server of this URL, which has restarted on another port. */
	redirect(target: string): void;
	/** Accepts new connections at full speed again, and continues stalled ones. */
	restore(): Promise<void>;
	close(): void;
}

/** After which a server ends the connection of a peer that has vanished (docs/deploy.md). */
const keepaliveMs = 30_000;

interface Pair {
	sockets: readonly [client: Socket, server: Socket];
	/** What the client had sent when the network stalled, in bytes. A paused socket still reads some. */
	sentBefore: number;
	silentForEver: boolean;
}

/** A proxy on a free port of 127.0.0.1, to the server of this URL. */
export async function startTcpProxy(target: string): Promise<TcpProxy> {
	let { hostname, port: targetPort } = new URL(target);
	const pairs = new Set<Pair>();
	let state: 'open' | 'stalled' | 'silent' | 'hanging up' = 'open';
	let [taken, late, reset] = [0, 0, 0];
	let latency = 0;

	const server = createServer({ pauseOnConnect: true }, (client) => {
		taken++;
		if (state === 'hanging up') return void client.on('error', () => undefined).end();
		const sockets = [client, connect({ host: hostname, port: Number(targetPort) })] as const;
		const pair: Pair = { sockets, sentBefore: Number.POSITIVE_INFINITY, silentForEver: state === 'silent' };
		pairs.add(pair);
		const pass = (from: Socket, to: Socket) => {
			// Keeps the order of arrival, even if the latency has changed meanwhile.
			const delayed: (() => void)[] = [];
			let due = 0;
			const later = (step: () => void) => {
				const now = performance.now();
				due = Math.max(due, now + latency);
				if (due === now && delayed.length === 0) return step();
				late++;
				delayed.push(step);
				setTimeout(() => delayed.shift()?.(), due - now);
			};
			from.on('data', (data) => later(() => void to.write(data)));
			const end = () => {
				pairs.delete(pair);
				later(() => void to.destroy());
			};
			// A reset fails if the other end closes at the same moment. The socket then closes without an error.
			from.on('error', end).on('close', end);
			if (state === 'open') from.resume();
			else from.pause();
		};
		pass(sockets[0], sockets[1]);
		pass(sockets[1], sockets[0]);
	});
	const listen = async (port: number) => {
		server.listen(port, '127.0.0.1');
		await once(server, 'listening');
	};
	const refuse = () => {
		if (server.listening) server.close();
	};
	const cut = () => {
		refuse();
		reset += pairs.size;
		for (const { sockets } of pairs) sockets[0].resetAndDestroy();
	};
	const pause = () => {
		for (const pair of pairs) {
			for (const socket of pair.sockets) socket.pause();
			pair.sentBefore = pair.sockets[0].bytesRead;
		}
	};

	await listen(0);
	const { port } = server.address() as { port: number };
	return {
		get taken() {
			return taken;
		},
		get held() {
			return [...pairs].filter(({ sockets, sentBefore }) => sockets[0].bytesRead > sentBefore).length;
		},
		get late() {
			return late;
		},
		get reset() {
			return reset;
		},
		through: (url) => Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(port) }).href,
		cut,
		refuse,
		hangUp() {
			state = 'hanging up';
			for (const { sockets } of pairs) sockets[0].end();
		},
		blackhole() {
			state = 'silent';
			pause();
			for (const pair of pairs) pair.silentForEver = true;
			const end = () => {
				for (const { sockets, silentForEver } of pairs) if (silentForEver) sockets[1].destroy();
			};
			setTimeout(end, keepaliveMs).unref();
		},
		stall() {
			state = 'stalled';
			pause();
		},
		holdBack: pause,
		holdResponses() {
			for (const { sockets } of pairs) sockets[1].pause();
		},
		holdNew() {
			state = 'stalled';
		},
		slow(milliseconds) {
			latency = milliseconds;
		},
		redirect(other) {
			({ hostname, port: targetPort } = new URL(other));
		},
		async restore() {
			state = 'open';
			latency = 0;
			for (const { sockets, silentForEver } of pairs) {
				if (!silentForEver) for (const socket of sockets) socket.resume();
			}
			if (!server.listening) await listen(port);
		},
		close: cut,
	};
}
