/** Downloads one response and measures the time. Keeps only the beginning and the end of the body. */
import { get } from 'node:http';
import type { Transfer } from './transfer.js';

process.once('message', ({ url }: { url: string }) => {
	const begun = performance.now();
	get(url, { agent: false }, (response) => {
		let bytes = 0;
		let firstByte = 0;
		let head: Buffer = Buffer.alloc(0);
		let tail: Buffer = Buffer.alloc(0);
		response.on('data', (chunk: Buffer) => {
			if (bytes === 0) firstByte = performance.now() - begun;
			bytes += chunk.length;
			if (head.length < 40) head = Buffer.concat([head, chunk.subarray(0, 40)]);
			tail = chunk.length >= 40 ? chunk.subarray(-40) : Buffer.concat([tail, chunk]);
		});
		response.on('end', () => {
			const milliseconds = performance.now() - begun;
			tell({
				status: response.statusCode ?? 0,
				streamed: response.headers['transfer-encoding'] === 'chunked',
				bytes,
				firstByte,
				milliseconds,
				head: head.toString('latin1').slice(0, 40),
				tail: tail.toString('latin1').slice(-2),
			});
		});
		response.on('error', fail);
	}).on('error', fail);
});
process.once('disconnect', () => process.exit(0));

function fail(error: Error): void {
	tell({ failure: `the download broke off: ${error.message}` });
}

function tell(message: Transfer | { failure: string }): void {
	process.send?.(message);
}
