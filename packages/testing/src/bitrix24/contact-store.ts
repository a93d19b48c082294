import type { StandInContact } from './contact.js';

/** Contacts by ID, with their IDs in ascending order beside them, so that a page of a long list costs a page. */
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

	/** The contacts with a higher ID, in the order of their IDs. */
	*after(id: number): Generator<StandInContact> {
		for (let index = this.#position(id + 1); index < this.#ids.length; index++)
			yield this.get(this.#ids[index] as number) as StandInContact;
	}

	/** The index of the first ID that is not lower than this one. */
	#position(id: number): number {
		let [low, high] = [0, this.#ids.length];
		if ((this.#ids.at(-1) ?? 0) < id) return high;
		while (low < high) {
			const middle = (low + high) >> 1;
			if ((this.#ids[middle] as number) < id) low = middle + 1;
			else high = middle;
		}
		return low;
	}
}

/** The changes that people make in the portal. Nothing else assigns IDs or moves updatedTime. */
export interface ContactStore {
	/** Adds a contact, with the next ID and both times now, unless it has them. IDs of deleted contacts are not used again. */
	add(contact: Partial<StandInContact>): StandInContact;
	/**
	 * Changes a contact. Its updatedTime becomes now, unless `touch` is false. Whether a change of links alone moves it is not
	 * known; here it does not unless `touch` is true, which is harder for a client.
	 */
	update(id: number, changes: Partial<Omit<StandInContact, 'id'>>, options?: { touch?: boolean }): void;
	/** Puts a contact into the recycle bin, which no REST method shows. */
	remove(id: number): void;
	/** Takes a contact out of the recycle bin. Whether that moves updatedTime is not known; here it does not. */
	restore(id: number): StandInContact;
	/** Merges duplicates: the winner gets what it lacks, and the loser is deleted without an event. */
	merge(winner: number, loser: number): void;
	/** The webhook's user may not read these contacts any more. */
	hide(where: (contact: StandInContact) => boolean): void;
	/** The webhook's user may read all contacts again. */
	showAll(): void;
}

export function createContactStore(contacts: ContactMap, clock: () => number): ContactStore {
	const bin = new Map<number, StandInContact>();
	let lastId = 0;
	const now = () => new Date(Math.floor(clock() / 1000) * 1000);

	function find(map: Map<number, StandInContact>, id: number): StandInContact {
		const contact = map.get(id);
		if (contact === undefined) throw new Error(`There is no contact ${id}`);
		return contact;
	}

	function add(contact: Partial<StandInContact>): StandInContact {
		const added = { createdTime: now(), updatedTime: now(), ...contact, id: contact.id ?? lastId + 1 };
		contacts.set(added.id, added);
		lastId = Math.max(lastId, added.id);
		return added;
	}

	return {
		add,
		update(id, changes, { touch } = {}) {
			const contact = find(contacts, id);
			Object.assign(contact, changes);
			const isLinkOnly = Object.keys(changes).join() === 'companyIds';
			if (touch ?? !isLinkOnly) contact.updatedTime = now();
		},
		remove(id) {
			bin.set(id, find(contacts, id));
			contacts.delete(id);
		},
		restore(id) {
			const contact = find(bin, id);
			bin.delete(id);
			return add(contact);
		},
		merge(winner, loser) {
			const [kept, gone] = [find(contacts, winner), find(contacts, loser)];
			kept.companyIds = [...new Set([...(kept.companyIds ?? []), ...(gone.companyIds ?? [])])];
			kept.phones = [...(kept.phones ?? []), ...(gone.phones ?? [])];
			for (const name of ['name', 'secondName', 'lastName'] as const) kept[name] ||= gone[name] ?? null;
			kept.uf = { ...gone.uf, ...kept.uf };
			kept.updatedTime = now();
			contacts.delete(loser);
		},
		hide(where) {
			for (const contact of contacts.values()) if (where(contact)) contact.readable = false;
		},
		showAll() {
			for (const contact of contacts.values()) delete contact.readable;
		},
	};
}
