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
 * Bounds what the system buffers of a large file that anybody may request. A response counts until its connection is closed: this
 * side can't see whether the client has read it. For a further one the oldest connection is closed, after its time to read.
 *
 * @returns a function to call before each response. It rejects the request when there are too many.
 */
export function limitUnreadResponses(clock: () => number): (socket: Socket, bytes: number) => void {
	const connections = new Map<Socket, { bytes: number; sentAt: number }>();
	let sum = 0;

	function remove(socket: Socket): number {
		const { bytes } = connections.get(socket) ?? { bytes: 0 };
		connections.delete(socket);
		sum -= bytes;
		return bytes;
	}

	return function admit(socket, bytes) {
		const now = clock();
		for (const [oldest, { sentAt }] of connections) {
			if (sum + bytes <= maxBytes) break;
			if (now - sentAt < readTimeMs) throw new Problem('overloaded');
			remove(oldest);
			// After a usual close the system would keep what it has buffered.
			oldest.resetAndDestroy();
		}
		if (!connections.has(socket)) socket.once('close', () => remove(socket));
		const total = remove(socket) + bytes;
		connections.set(socket, { bytes: total, sentAt: now });
		sum += total;
	};
}
