import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { createLogger } from '../observability/logger.js';
import { createServer } from './server.js';

test('a connection is closed when its client does not read the response', async () => {
	const logger = createLogger({ name: 'test', level: 'silent' });
	const server = await createServer({ logger, limits: { stallTimeoutMs: 200 } });
	onTestFinished(() => server.close());
	// More than the system buffers for both ends.
	server.get('/large', async () => Buffer.alloc(50_000_000));
	await server.listen({ host: '127.0.0.1', port: 0 });
	const client = connect((server.server.address() as AddressInfo).port, '127.0.0.1').pause();
	onTestFinished(() => void client.destroy());
	const [connection] = (await once(server.server, 'connection')) as [Socket];
	client.write('GET /large HTTP/1.1\r\nHost: a\r\n\r\n');
	await once(connection, 'close');
	// So it was not closed after the response.
	expect(client.bytesRead).toBe(0);
});
