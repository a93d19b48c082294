import { failureReason } from '@contacts/common/database/errors.js';

/**
 * Joins a query under way, or starts one. A shared query fails at the deadline of the caller that started it. One that joined
 * it and has time left asks again, once.
 *
 * @param until the caller's deadline, in milliseconds of `performance.now()`
 */
export async function shareQuery<Result>(
	underWay: () => Promise<Result> | undefined,
	start: () => Promise<Result>,
	until: number,
): Promise<Result> {
	const known = underWay();
	if (known === undefined) return start();
	try {
		return await known;
	} catch (error) {
		if (failureReason(error) !== 'deadline' || performance.now() >= until) throw error;
		return underWay() ?? start();
	}
}
