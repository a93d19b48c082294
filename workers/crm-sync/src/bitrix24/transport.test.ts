import { getEventListeners } from 'node:events';
import { startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { expect, onTestFinished, test } from 'vitest';
import { createRestClient, policies } from './rest-client.js';

test('requests leave nothing in an abort signal that lives as long as the process', async () => {
	const standIn = await startStandIn();
	onTestFinished(() => standIn.close());
	const { signal } = new AbortController();
	const clock = { now: () => 0, sleep: async () => undefined };
	const client = createRestClient({ webhookUrl: standIn.webhookUrl, policy: policies.standard, clock, signal });
	/** Its listeners, and the entries that Node.js itself keeps in it, for instance for `AbortSignal.any`. */
	const entries = () =>
		Object.getOwnPropertySymbols(signal)
			.map((key) => Reflect.get(signal, key) as { size?: number } | undefined)
			.reduce((sum, value) => sum + (value?.size ?? 0), 0) + getEventListeners(signal, 'abort').length;
	const call = () => client.call('crm.item.fields', { entityTypeId: 3 }, ({ result }) => typeof result);
	await call();
	const before = entries();
	for (let calls = 0; calls < 20; calls++) await call();
	expect(entries()).toBe(before);
});
