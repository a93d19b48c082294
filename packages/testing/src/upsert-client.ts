import { connect, type Socket } from 'node:net';

/** The status of a response, or an error code. `HUNG` means no response within ten seconds. */
export type ResponseStatus = number | string;

/** Sends upserts on keep-alive connections. A request of node:http costs more than the service takes to serve it. */
export interface UpsertClient {
	/** Sends one upsert. The response must be `saved`. */
	upsert(url: string, contact: object): Promise<ResponseStatus>;
	close(): void;
}

interface Connection {
	host: string;
	exchange(request: string): Promise<ResponseStatus>;
}

export function createUpsertClient(): UpsertClient {
	const sockets = new Set<Socket>();
	const idle: Connection[] = [];

	function open({ host, hostname, port }: URL): Connection {
		const socket = connect({ port: Number(port), host: hostname, noDelay: true });
		let received = '';
		let report: (outcome: ResponseStatus) => void = () => undefined;
		const connection: Connection = {
			host,
			exchange: (request) =>
				new Promise((resolve) => {
					const limit = setTimeout(() => {
						report('HUNG');
						// Of a socket that is merely closed, the system delivers the request when the network returns, over a newer one.
						socket.resetAndDestroy();
					}, 10_000);
					report = (outcome) => {
						clearTimeout(limit);
						resolve(outcome);
					};
					socket.write(request);
				}),
		};
		socket.setEncoding('latin1').on('data', (text) => {
			received += text;
			const end = received.indexOf('\r\n\r\n');
			const [, length] = /\r\ncontent-length: (\d+)\r\n/i.exec(received) ?? [];
			if (end < 0 || received.length < end + 4 + Number(length)) return;
			const [status, body] = [Number(received.slice(9, 12)), received.slice(end + 4)];
			if (/\r\nconnection: close\r\n/i.test(received)) socket.destroy();
			else idle.push(connection);
			received = '';
			report(status === 200 && body !== '{"ok":"saved"}' ? body : status);
		});
		socket.on('error', (error: NodeJS.ErrnoException) => report(error.code ?? error.message));
		socket.on('close', () => {
			sockets.delete(socket);
			if (idle.includes(connection)) idle.splice(idle.indexOf(connection), 1);
			report('ECONNRESET');
		});
		sockets.add(socket);
		return connection;
	}

	return {
		upsert(url, contact) {
			const target = new URL(url);
			const body = JSON.stringify(contact);
			const at = idle.findLastIndex(({ host }) => host === target.host);
			const [connection = open(target)] = at < 0 ? [] : idle.splice(at, 1);
			return connection.exchange(
				`POST ${target.pathname}${target.search} HTTP/1.1\r\nHost: ${target.host}\r\nContent-Type: application/json\r\n` +
					`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
			);
		},
		close() {
			for (const socket of sockets) socket.destroy();
		},
	};
}
