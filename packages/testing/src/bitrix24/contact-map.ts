import type { StandInContact } from './contact.js';

/** Contacts by id, with their ids in ascending order beside them, so that a page of a long list costs a page. */
export class ContactMap extends Map<number, StandInContact> {
	#ids: number[] = [];

	override set(id: number, contact: StandInContact): this {
		if (!this.has(id)) this.#ids.splice(this.#position(id), 0, id);
		return super.set(id, contact);
	}

	override delete(id: number): boolean {
		if (!super.delete(id)) return false;
		this.#ids.splice(this.#position(id), 1);
		return true;
	}

	override clear(): void {
		super.clear();
		this.#ids = [];
	}

	/** The highest id, 0 without contacts. */
	get highestId(): number {
		return this.#ids.at(-1) ?? 0;
	}

	/** The contacts whose id is at least this one, in ascending order of id, or in descending order. */
	*fromId(lowest: number, descending = false): Generator<StandInContact> {
		const first = this.#position(lowest);
		if (descending) {
			for (let index = this.#ids.length - 1; index >= first; index--) yield this.#at(index);
		} else {
			for (let index = first; index < this.#ids.length; index++) yield this.#at(index);
		}
	}

	#at(index: number): StandInContact {
		return this.get(this.#ids[index] as number) as StandInContact;
	}

	/** The index of the first id that is not lower than this one. */
	#position(id: number): number {
		const ids = this.#ids;
		const last = ids.at(-1);
		if (last === undefined || last < id) return ids.length;
		let low = 0;
		let high = ids.length - 1;
		while (low < high) {
			const middle = (low + high) >> 1;
			if ((ids[middle] as number) < id) low = middle + 1;
			else high = middle;
		}
		return low;
	}
}
