import type { StandInContact } from './contact.js';
import type { Portal } from './portal.js';

/** The changes that people make in the portal: the one place that assigns ids and moves updatedTime. */
export class ContactStore {
	readonly #portal: Portal;
	readonly #bin = new Map<number, StandInContact>();
	#lastId = 0;

	constructor(portal: Portal) {
		this.#portal = portal;
	}

	/** Adds a contact, with the next id unless it has one. Ids of deleted contacts don't come again. */
	add(contact: Partial<StandInContact>): StandInContact {
		const now = this.#now();
		const added = { createdTime: now, updatedTime: now, ...contact, id: contact.id ?? this.#nextId() };
		if (this.#portal.contacts.has(added.id)) throw new Error(`There is a contact ${added.id} already`);
		this.#portal.contacts.set(added.id, added);
		this.#lastId = Math.max(this.#lastId, added.id);
		return added;
	}

	/**
	 * Changes a contact. Its updatedTime becomes now, unless it is among the changes or `touch` is false. [??] A change of
	 * company links alone touches it as the switch `linkChangeTouches` says, unless `touch` is true.
	 */
	update(id: number, changes: Partial<Omit<StandInContact, 'id'>>, { touch }: { touch?: boolean } = {}): void {
		const contact = this.#get(id);
		const names = Object.keys(changes);
		const linksOnly = names.length > 0 && names.every((name) => name === 'companyIds');
		Object.assign(contact, changes);
		const touches = touch ?? (!linksOnly || this.#portal.switches.linkChangeTouches);
		if (touches && changes.updatedTime === undefined) contact.updatedTime = this.#now();
	}

	/** Puts a contact into the recycle bin, which no REST method shows. [DOC] */
	remove(id: number): void {
		this.#bin.set(id, this.#get(id));
		this.#portal.contacts.delete(id);
	}

	/** Takes a contact out of the recycle bin; id and updatedTime as the switches say. [??] */
	restore(id: number): StandInContact {
		const contact = this.#bin.get(id);
		if (contact === undefined) throw new Error(`There is no contact ${id} in the recycle bin`);
		this.#bin.delete(id);
		const { restoreKeepsId, restoreTouches } = this.#portal.switches;
		if (restoreTouches) contact.updatedTime = this.#now();
		return this.add(restoreKeepsId ? contact : { ...contact, id: this.#nextId() });
	}

	/**
	 * Merges duplicates: the winner takes over what it lacks, the loser is deleted. [FIELD] No event says so. [INF] The winner
	 * counts as changed.
	 */
	merge(winner: number, loser: number): void {
		const [kept, gone] = [this.#get(winner), this.#get(loser)];
		if (kept === gone) throw new Error('A contact is not merged with itself');
		kept.companyIds = [...new Set([...(kept.companyIds ?? []), ...(gone.companyIds ?? [])])];
		kept.phones = [...(kept.phones ?? []), ...(gone.phones ?? [])];
		kept.emails = [...(kept.emails ?? []), ...(gone.emails ?? [])];
		for (const name of ['name', 'secondName', 'lastName'] as const) {
			if ((kept[name] ?? '') === '') kept[name] = gone[name] ?? null;
		}
		kept.uf = { ...gone.uf, ...kept.uf };
		kept.updatedTime = this.#now();
		this.#portal.contacts.delete(loser);
	}

	#get(id: number): StandInContact {
		const contact = this.#portal.contacts.get(id);
		if (contact === undefined) throw new Error(`There is no contact ${id}`);
		return contact;
	}

	#nextId(): number {
		return Math.max(this.#lastId, this.#portal.contacts.highestId) + 1;
	}

	#now(): Date {
		return new Date(Math.floor(this.#portal.clock() / 1000) * 1000);
	}
}
