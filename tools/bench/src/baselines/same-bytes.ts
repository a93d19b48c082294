/**
 * The fastest that Node.js can send a response: bare `node:http`, with the bytes that the service sent for the same URL. It
 * requests each of them once.
 */
import { createServer, get } from 'node:http';
import { buffer } from 'node:stream/consumers';

interface Recorded {
	status: number;
	headers: string[];
	body: Buffer;
}

const { PORT, SERVICE_URL } = process.env;

/** Headers that Node.js adds itself, and those of the connection. */
const ownHeaders = ['date', 'connection', 'keep-alive', 'transfer-encoding', 'content-length'];

const recorded = new Map<string, Recorded>();

createServer(async (request, response) => {
	const url = request.url ?? '';
	if (url === '/health/ready') return response.end('ok');
	const { status, headers, body } = recorded.get(url) ?? (await record(url));
	response.writeHead(status, headers);
	response.end(body);
}).listen(Number(PORT), '127.0.0.1');

process.once('disconnect', () => process.exit(0));

function record(url: string): Promise<Recorded> {
	return new Promise((resolve, reject) => {
		get(SERVICE_URL + url, { agent: false }, async (response) => {
			const body = await buffer(response);
			const { statusCode: status = 0, rawHeaders } = response;
			const headers = rawHeaders.flatMap((name, index) =>
				index % 2 === 1 || ownHeaders.includes(name.toLowerCase()) ? [] : [name, rawHeaders[index + 1] ?? ''],
			);
			const kept = { status, headers: [...headers, 'content-length', String(body.length)], body };
			recorded.set(url, kept);
			resolve(kept);
		}).on('error', reject);
	});
}
