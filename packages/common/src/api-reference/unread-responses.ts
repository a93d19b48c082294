import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { Problem } from '../http/problems.js';

/**
 * The largest sum of responses that clients may not have read. The system buffers up to 4 MB for a connection, and counts that as
 * memory of the container or unit.
 */
const maxBytes = 60 * 1_048_576;

/** Long enough for a telephone to read the compressed script, with 1 Mbit/s. */
const readTimeMs = 10_000;

/**
 * Bounds what the system buffers of a large file that anybody may request. A response counts until its connection is closed or has
 * another request, because this side can't see whether the client has read it. For a further one the oldest connection is closed,
 * after its time to read. So a connection of a proxy is closed only while no other request is in progress on it.
 *
 * @returns a function to call before each response. It rejects the request when there are too many.
 */
export function limitUnreadResponses(server: Server, clock: () => number): (socket: Socket, bytes: number) => void {
	const connections = new Map<Socket, { bytes: number; sentAt: number }>();
	let sum = 0;

	function remove(socket: Socket): void {
		sum -= connections.get(socket)?.bytes ?? 0;
		connections.delete(socket);
	}

	server
		// Before the response to this request is counted.
		.prependListener('request', ({ socket }) => remove(socket))
		.on('connection', (socket: Socket) => socket.once('close', () => remove(socket)));

	return function admit(socket, bytes) {
		const now = clock();
		for (const [oldest, { sentAt }] of connections) {
			if (sum + bytes <= maxBytes) break;
			if (now - sentAt < readTimeMs) throw new Problem('overloaded');
			remove(oldest);
			// After a usual close the system would keep what it has buffered.
			oldest.resetAndDestroy();
		}
		connections.set(socket, { bytes, sentAt: now });
		sum += bytes;
	};
}
