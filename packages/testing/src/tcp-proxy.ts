import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A network between clients and a server, which fails in the ways in which networks do. */
export interface TcpProxy {
	/** Connections that were taken so far. */
	readonly taken: number;
	/** The same URL, with the way through this proxy. */
	through(url: string): string;
	/** Ends all connections and refuses new ones. */
	cut(): void;
	/** Refuses new connections; those that are open go on. */
	refuse(): void;
	/** Takes new connections and ends them at once, as a load balancer does whose server is away; ends those that are open. */
	hangUp(): void;
	/** Passes nothing on and closes nothing; new connections are taken. Those of that time stay silent for ever. */
	blackhole(): void;
	/** Passes nothing on for now; new connections are taken. What was sent arrives after `restore`. */
	stall(): void;
	/** Passes nothing on for now over the connections that are open; new ones work. What was sent arrives after `restore`. */
	holdBack(): void;
	/** Passes no response on for now over the connections that are open; what clients send arrives. They arrive after `restore`. */
	holdResponses(): void;
	/** Passes nothing on for now over connections that are made from now on; those that are open go on. */
	holdNew(): void;
	/** Passes each piece on only after this many milliseconds, in both directions, and the end of a connection too. */
	slow(milliseconds: number): void;
	/** New connections go to the server that this URL names: it has come back on another port. */
	redirect(target: string): void;
	/** New connections work again at full speed, and those that were stalled go on. */
	restore(): Promise<void>;
	close(): void;
}

interface Pair {
	sockets: readonly [client: Socket, server: Socket];
	silentForEver: boolean;
}

/** A proxy on a free port of 127.0.0.1, to the server that this URL names. */
export async function startTcpProxy(target: string): Promise<TcpProxy> {
	let { hostname, port: targetPort } = new URL(target);
	const pairs = new Set<Pair>();
	let state: 'open' | 'stalled' | 'silent' | 'hanging up' = 'open';
	let taken = 0;
	let latency = 0;

	const server = createServer({ pauseOnConnect: true }, (client) => {
		taken++;
		if (state === 'hanging up') return void client.on('error', () => undefined).end();
		const sockets = [client, connect({ host: hostname, port: Number(targetPort) })] as const;
		const pair: Pair = { sockets, silentForEver: state === 'silent' };
		pairs.add(pair);
		const pass = (from: Socket, to: Socket) => {
			// In the order in which they came, and none sooner because the latency has changed meanwhile.
			const delayed: (() => void)[] = [];
			let due = 0;
			const later = (step: () => void) => {
				const now = performance.now();
				due = Math.max(due, now + latency);
				if (due === now && delayed.length === 0) return step();
				delayed.push(step);
				setTimeout(() => delayed.shift()?.(), due - now);
			};
			from.on('data', (data) => later(() => void to.write(data)));
			const end = () => {
				pairs.delete(pair);
				later(() => void to.destroy());
			};
			// A reset fails if the other end has gone in the same moment, and the socket then closes without a word.
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
		for (const { sockets } of pairs) sockets[0].resetAndDestroy();
	};
	const pause = () => {
		for (const { sockets } of pairs) for (const socket of sockets) socket.pause();
	};

	await listen(0);
	const { port } = server.address() as { port: number };
	return {
		get taken() {
			return taken;
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
