import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** A response that an intermediary makes up. */
export interface ForeignResponse {
	status: number;
	headers?: Record<string, string>;
	body?: string;
	/** Whether the connection breaks after half of the body. */
	isHalf?: boolean;
}

/** An intermediary in front of a service, which may respond in its place. */
export interface HttpProxy {
	/** Its address, such as `http://127.0.0.1:4711`. */
	readonly url: string;
	/** How many requests have no response yet. */
	readonly waiting: number;
	/** How many responses were made up so far. */
	readonly foreign: number;
	/**
	 * Responds in place of the service until `pass`.
	 *
	 * @param delayMs when the request is passed on, in milliseconds after that response; undefined: before it, and the service has
	 *   responded
	 */
	answer(response: ForeignResponse, delayMs?: number): void;
	/** Holds requests back until `pass`, except those that their clients give up meanwhile, like a network that is away. */
	hold(): void;
	/** Passes requests and responses again. @returns how many requests were held back */
	pass(): number;
	/** Leads to another address from now on. */
	redirect(target: string): void;
	close(): Promise<void>;
}

/** An intermediary on a free port of 127.0.0.1, in front of the service at this address. */
export async function startHttpProxy(target: string): Promise<HttpProxy> {
	const agent = new Agent({ keepAlive: true });
	let made: { response: ForeignResponse; delayMs: number | undefined } | undefined;
	let [waiting, foreign] = [0, 0];
	/** Let the requests go on that are held back. */
	let held: (() => void)[] | undefined;

	/** Sends the request to the service. A client that gives up ends the request there, as nginx does. */
	async function passOn(incoming: IncomingMessage, body: Buffer, client?: ServerResponse): Promise<IncomingMessage> {
		const { method, headers, url } = incoming;
		const outgoing = request(new URL(target + url), { method, headers, agent });
		client?.on('close', () => outgoing.destroy());
		outgoing.end(body);
		const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
		// A connection that breaks later ends the response.
		outgoing.on('error', () => undefined);
		return response;
	}
	function makeUp(client: ServerResponse, { status, headers = {}, body = '', isHalf = false }: ForeignResponse): void {
		foreign++;
		client.writeHead(status, { ...headers, ...(status === 204 ? {} : { 'content-length': Buffer.byteLength(body) }) });
		if (isHalf) client.write(body.slice(0, body.length / 2), () => client.destroy());
		else client.end(body);
	}
	async function handle(incoming: IncomingMessage, client: ServerResponse): Promise<void> {
		waiting++;
		client.on('close', () => void waiting--);
		const chunks: Buffer[] = [];
		for await (const chunk of incoming) chunks.push(chunk as Buffer);
		const body = Buffer.concat(chunks);
		if (held !== undefined) await new Promise<void>((resolve) => held?.push(resolve));
		if (client.destroyed) return;
		if (made === undefined) {
			const response = await passOn(incoming, body, client);
			client.writeHead(response.statusCode as number, response.headers);
			response.on('error', () => client.destroy());
			return void response.pipe(client);
		}
		const { response, delayMs } = made;
		if (delayMs === undefined) {
			(await passOn(incoming, body)).resume();
			return makeUp(client, response);
		}
		makeUp(client, response);
		await delay(delayMs);
		(await passOn(incoming, body)).resume();
	}

	const server = createServer((incoming, client) => {
		handle(incoming, client).catch(() => client.destroy());
	});
	server.keepAliveTimeout = 72_000;
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
		get waiting() {
			return waiting;
		},
		get foreign() {
			return foreign;
		},
		answer(response, delayMs) {
			made = { response, delayMs };
		},
		hold() {
			held = [];
		},
		pass() {
			const released = held ?? [];
			made = held = undefined;
			for (const release of released) release();
			return released.length;
		},
		redirect(other) {
			target = other;
		},
		async close() {
			server.close();
			server.closeAllConnections();
			agent.destroy();
			await once(server, 'close');
		},
	};
}
