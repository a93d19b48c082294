/** When a caller's request was complete, and when it must have its response, in milliseconds of `performance.now()`. */
export interface Deadline {
	readonly startedAt: number;
	readonly expiresAt: number;
}

export function startDeadline(timeoutMs: number): Deadline {
	const startedAt = performance.now();
	return { startedAt, expiresAt: startedAt + timeoutMs };
}

/** How much time is left, in milliseconds. Negative after the deadline. */
export function remainingMs({ expiresAt }: Deadline): number {
	return expiresAt - performance.now();
}

/** The result of `withTimeout` after a timeout. */
export const timedOut = Symbol('timed out');

/** Waits for a promise, at most for this many milliseconds. Its later result is ignored. */
export async function withTimeout<T>(promise: PromiseLike<T>, milliseconds: number): Promise<T | typeof timedOut> {
	let timer: NodeJS.Timeout | undefined;
	const timeout = new Promise<typeof timedOut>((resolve) => {
		timer = setTimeout(resolve, Math.max(0, Math.ceil(milliseconds)), timedOut);
	});
	try {
		return await Promise.race([promise, timeout]);
	} finally {
		clearTimeout(timer);
	}
}
