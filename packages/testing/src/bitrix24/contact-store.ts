import type { StandInContact } from './contact.js';
import type { CrmState } from './crm-state.js';

/** The changes that people make in the CRM. Nothing else assigns IDs or moves updatedTime. */
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

export function createContactStore(crm: CrmState): ContactStore {
	const { contacts, clock } = crm;
	const bin = new Map<number, StandInContact>();
	const now = () => new Date(Math.floor(clock() / 1000) * 1000);

	function find(map: Map<number, StandInContact>, id: number): StandInContact {
		const contact = map.get(id);
		if (contact === undefined) throw new Error(`There is no contact ${id}`);
		return contact;
	}

	function add(contact: Partial<StandInContact>): StandInContact {
		const added = { createdTime: now(), updatedTime: now(), ...contact, id: contact.id ?? crm.lastId + 1 };
		contacts.set(added.id, added);
		crm.lastId = Math.max(crm.lastId, added.id);
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
