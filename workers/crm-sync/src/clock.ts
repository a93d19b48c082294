import { setTimeout as delay } from 'node:timers/promises';

/** A clock that tests can replace, so that they don't have to wait. */
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
