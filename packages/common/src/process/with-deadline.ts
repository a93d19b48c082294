/** What `withDeadline` resolves to when the time is up. */
export const timedOut = Symbol('timed out');

/** Waits for a promise for so many milliseconds at most. What becomes of it afterwards is ignored. */
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
