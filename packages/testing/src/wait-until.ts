import { setTimeout as delay } from 'node:timers/promises';

export interface WaitOptions {
	timeoutMs: number;
	intervalMs?: number;
	message?: () => string;
}

/**
 * Polls until the condition holds, and returns its result.
 *
 * @throws Error when it does not hold in time
 */
export async function waitUntil<Value>(
	condition: () => Value | Promise<Value>,
	{ timeoutMs, intervalMs = 10, message = () => 'the condition did not hold' }: WaitOptions,
): Promise<NonNullable<Value>> {
	const until = performance.now() + timeoutMs;
	for (;;) {
		const value = await condition();
		if (value) return value;
		if (performance.now() > until) throw new Error(`${message()} (waited ${timeoutMs} ms)`);
		await delay(intervalMs);
	}
}
