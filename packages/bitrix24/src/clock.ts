import { setTimeout as delay } from 'node:timers/promises';

/** A clock that tests replace, so that they need not wait. */
export interface Clock {
	/** Milliseconds since the epoch. */
	now(): number;
	/** @throws AbortError when the signal comes first */
	sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
	now: () => Date.now(),
	sleep: (milliseconds, signal) => delay(milliseconds, undefined, signal ? { signal } : {}),
};
