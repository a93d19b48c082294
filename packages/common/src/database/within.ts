/** What `within` resolves to when the time is up. */
export const overdue = Symbol('overdue');

/** Waits for a promise for so many milliseconds at the most. What becomes of it afterwards is ignored. */
export async function within<T>(promise: PromiseLike<T>, milliseconds: number): Promise<T | typeof overdue> {
	let timer: NodeJS.Timeout | undefined;
	const timeout = new Promise<typeof overdue>((resolve) => {
		timer = setTimeout(resolve, Math.ceil(milliseconds), overdue);
	});
	try {
		return await Promise.race([promise, timeout]);
	} finally {
		clearTimeout(timer);
	}
}
