import type { StandInContact } from './contact.js';
import type { Portal } from './portal.js';

/** The changes that people make in the portal. Nothing else assigns IDs or moves updatedTime. */
export interface ContactStore {
	/** Adds a contact, with the next id and both times now, unless it has them. IDs of deleted contacts are not used again. */
	add(contact: Partial<StandInContact>): StandInContact;
	/**
	 * Changes a contact. Its updatedTime becomes now, unless it is among the changes or `touch` is false. [??] A change of
	 * company links alone touches it as the switch `linkChangeTouches` says, unless `touch` is true.
	 */
	update(id: number, changes: Partial<Omit<StandInContact, 'id'>>, options?: { touch?: boolean }): void;
	/** Puts a contact into the recycle bin, which no REST method shows. [DOC] */
	remove(id: number): void;
	/** Takes a contact out of the recycle bin; id and updatedTime as the switches say. [??] */
	restore(id: number): StandInContact;
	/**
	 * Merges duplicates: the winner takes over what it lacks, the loser is deleted. [FIELD] No event says so. [INF] The winner
	 * counts as changed.
	 */
	merge(winner: number, loser: number): void;
	/** The webhook's user may not read these contacts any more. */
	hide(where: (contact: StandInContact) => boolean): void;
	/** The webhook's user may read all contacts again. */
	showAll(): void;
}

export function createContactStore({ contacts, switches, clock }: Portal): ContactStore {
	const bin = new Map<number, StandInContact>();
	let lastId = 0;
	const nextId = () => Math.max(lastId, contacts.highestId) + 1;
	const now = () => new Date(Math.floor(clock() / 1000) * 1000);

	function find(id: number): StandInContact {
		const contact = contacts.get(id);
		if (contact === undefined) throw new Error(`There is no contact ${id}`);
		return contact;
	}

	function add(contact: Partial<StandInContact>): StandInContact {
		const added = { createdTime: now(), updatedTime: now(), ...contact, id: contact.id ?? nextId() };
		if (contacts.has(added.id)) throw new Error(`There is a contact ${added.id} already`);
		contacts.set(added.id, added);
		lastId = Math.max(lastId, added.id);
		return added;
	}

	return {
		add,
		update(id, changes, { touch } = {}) {
			const contact = find(id);
			const names = Object.keys(changes);
			const linksOnly = names.length > 0 && names.every((name) => name === 'companyIds');
			Object.assign(contact, changes);
			const touches = touch ?? (!linksOnly || switches.linkChangeTouches);
			if (touches && changes.updatedTime === undefined) contact.updatedTime = now();
		},
		remove(id) {
			bin.set(id, find(id));
			contacts.delete(id);
		},
		restore(id) {
			const contact = bin.get(id);
			if (contact === undefined) throw new Error(`There is no contact ${id} in the recycle bin`);
			bin.delete(id);
			if (switches.restoreTouches) contact.updatedTime = now();
			return add(switches.restoreKeepsId ? contact : { ...contact, id: nextId() });
		},
		merge(winner, loser) {
			const [kept, gone] = [find(winner), find(loser)];
			if (kept === gone) throw new Error('A contact is not merged with itself');
			kept.companyIds = [...new Set([...(kept.companyIds ?? []), ...(gone.companyIds ?? [])])];
			kept.phones = [...(kept.phones ?? []), ...(gone.phones ?? [])];
			kept.emails = [...(kept.emails ?? []), ...(gone.emails ?? [])];
			for (const name of ['name', 'secondName', 'lastName'] as const) {
				if ((kept[name] ?? '') === '') kept[name] = gone[name] ?? null;
			}
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
