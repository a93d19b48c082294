/** The result of `withDeadline` after a timeout. */
export const timedOut = Symbol('timed out');

/** Waits for a promise, at most for this many milliseconds. Its later result is ignored. */
export async function withDeadline<T>(promise: PromiseLike<T>, milliseconds: number): Promise<T | typeof timedOut> {
	let timer: NodeJS.Timeout | undefined;
	const timeout = new Promise<typeof timedOut>((resolve) => {
		timer = setTimeout(resolve, Math.ceil(milliseconds), timedOut);
	});
	try {
		return await Promise.race([promise, timeout]);
	} finally {
		clearTimeout(timer);
	}
}
