import { type Deadline, remainingMs } from '@contacts/common/database/deadline.js';
import { classify } from '@contacts/common/database/errors.js';

/** Queries under way, each of which any number of callers share. */
export class SharedQueries<Result> {
	readonly #underWay = new Map<string, Promise<Result>>();

	/**
	 * Joins the query with this key, or starts one. A query fails at the deadline of the caller that started it. One that joined
	 * it and has time left asks again, once.
	 *
	 * @param deadline that of the caller
	 */
	async join(key: string, deadline: Deadline, query: () => Promise<Result>): Promise<Result> {
		const known = this.#underWay.get(key);
		if (known === undefined) return this.#start(key, query);
		try {
			return await known;
		} catch (error) {
			if (classify(error).reason !== 'deadline' || remainingMs(deadline) <= 0) throw error;
			return this.#underWay.get(key) ?? this.#start(key, query);
		}
	}

	#start(key: string, query: () => Promise<Result>): Promise<Result> {
		const shared = query().finally(() => this.#underWay.delete(key));
		this.#underWay.set(key, shared);
		return shared;
	}
}
