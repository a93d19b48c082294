/** The fastest that Node.js can send a response: bare `node:http`, with the bytes that the service sent for the same URL. */
import { createServer } from 'node:http';
import { recordedResponse } from './recorded.js';

const { PORT } = process.env;

createServer(async (request, response) => {
	const url = request.url ?? '';
	if (url === '/health/ready') return response.end('ok');
	const { status, headers, body } = await recordedResponse(url);
	response.writeHead(status, headers);
	response.end(body);
}).listen(Number(PORT), '127.0.0.1');

process.once('disconnect', () => process.exit(0));
