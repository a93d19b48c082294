/**
 * The fastest that a Node.js process can serve the list: a bare `node:http` server that responds to every request with the
 * same bytes. Without arguments it responds with two bytes.
 *
 * node same-bytes.js [FOLDER with head.json and body]
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

const [folder] = process.argv.slice(2);
const head: { status: number; rawHeaders: string[] } = folder
	? JSON.parse(readFileSync(join(folder, 'head.json'), 'utf8'))
	: { status: 200, rawHeaders: ['content-length', '2'] };
const body = folder ? readFileSync(join(folder, 'body')) : Buffer.from('ok');

createServer({ keepAliveTimeout: 72_000 }, (request, response) => {
	if (request.url === '/health/ready') {
		response.end('ok');
		return;
	}
	response.writeHead(head.status, head.rawHeaders);
	response.end(body);
}).listen(Number(process.env.PORT), '127.0.0.1');

process.once('disconnect', () => process.exit(0));
