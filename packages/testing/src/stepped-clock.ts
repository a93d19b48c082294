/** A clock that moves only while somebody sleeps, or when it is advanced. */
export function steppedClock() {
	let time = Date.now();
	const advance = (milliseconds: number) => {
		time += milliseconds;
	};
	return { now: () => time, advance, sleep: async (milliseconds: number) => advance(Math.max(milliseconds, 1)) };
}
