import { expect, onTestFinished, test } from 'vitest';
import type { KeyRing } from '../auth/key-ring.js';
import { createLogger } from '../observability/logger.js';
import { authenticate } from './authenticate.js';
import { createServer } from './server.js';

test('a plugin that is registered before one that it depends on fails at the start', async () => {
	const server = await createServer({ logger: createLogger({ name: 'order', level: 'silent' }) });
	onTestFinished(() => server.close());
	const registered = (async () => server.register(authenticate, { keyRing: {} as KeyRing }))();
	await expect(registered).rejects.toThrow("The dependency 'metrics' of plugin 'authenticate' is not registered");
});
