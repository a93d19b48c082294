import { startTcpProxy } from '@contacts/testing/tcp-proxy.js';
import { database as db, test } from '@contacts/testing/test.js';
import { expect, onTestFinished } from 'vitest';
import { startDeadline } from './deadline.js';
import { openStatePoll } from './state-poll.js';

test('a connection that takes two seconds to open is waited for', async () => {
	const network = await startTcpProxy(db.url);
	onTestFinished(() => network.close());
	// At least six round trips: the handshake, and the statement that is prepared.
	network.slow(250);
	const poll = openStatePoll({ url: network.through(db.url), applicationName: 'slow', watched: [] });
	onTestFinished(() => poll.close());
	const refresh = () => poll.refresh(startDeadline(60_000)).catch(() => undefined);
	await expect.poll(refresh, { timeout: 30_000 }).toBeDefined();
});
