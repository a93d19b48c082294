import { createSocket } from 'node:dgram';
import { once } from 'node:events';

export interface NameServer {
	/** `127.0.0.1:port`, for nginx's `resolver`. */
	address: string;
	close(): void;
}

/** Resolves every name to these IPv4 addresses, as a container engine does for a scaled service. */
export async function startNameServer(addresses: readonly string[]): Promise<NameServer> {
	const socket = createSocket('udp4');
	socket.on('message', (query, client) => {
		// RFC 1035: the header, the unchanged question, and an A record for each address, which points to the name.
		const end = query.indexOf(0, 12) + 5;
		const header = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, addresses.length, 0, 0, 0, 0]);
		const records = addresses.map((address) =>
			Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...address.split('.').map(Number)]),
		);
		socket.send(Buffer.concat([header, query.subarray(12, end), ...records]), client.port, client.address);
	});
	socket.bind(0, '127.0.0.1');
	await once(socket, 'listening');
	return { address: `127.0.0.1:${socket.address().port}`, close: () => socket.close() };
}
