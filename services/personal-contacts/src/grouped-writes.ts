import type { Database } from '@contacts/common/database/database.js';
import { DatabaseBusyError, DatabaseError, DeadlineError } from '@contacts/common/database/errors.js';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { type SentContact, savePersonalContact, savePersonalContacts } from './personal-contacts.sql.js';

export interface ContactWriter {
	/**
	 * Saves a contact, unless its chat has an active direct subscription. What is sent to the same chat is applied in the
	 * order of the calls.
	 *
	 * @returns whether it was saved; the row is durably committed then
	 * @throws DatabaseError within 4 seconds; DatabaseBusyError at once, when too many wait, or when it was not its turn within
	 *   that time
	 */
	save(sent: SentContact): Promise<boolean>;
}

export interface ContactWriterOptions {
	database: Database;
	registry: Registry;
	/** Milliseconds that never go back. */
	clock?: () => number;
}

/** Statements under way at once: more would only be smaller, but where they take long, others don't wait for them. */
const mostGroups = { usual: 1, slow: 10 };
/** Milliseconds after which a statement takes long. */
const slow = 50;
/** Contacts in one statement: at first, and at the most. */
const groupSize = { first: 16, most: 256 };
/** Milliseconds: in less, groups may grow; beyond the second they shrink. */
const groupTime = { grow: 100, shrink: 250 };
/** The most contacts that wait. */
const mostWaiting = 1000;
/** Milliseconds after which a caller gets an answer, whatever becomes of its group. */
const deadline = 4000;

interface Waiting extends SentContact {
	resolve(saved: boolean): void;
	reject(error: unknown): void;
	/** Whether it has been in a group. */
	hadTurn: boolean;
	/** Answered, perhaps because its time was up. */
	settled: boolean;
}

/**
 * Writes contacts in groups: what comes while statements are under way waits, and is then written by one statement. Nothing
 * waits for a group to fill, so a service without load writes each contact at once. Where the rows themselves take their
 * time, groups are small and many, so that none holds up its members.
 *
 * A chat that is being written is left out of the next group: so the order is kept, and no statement waits for another's row.
 */
export function createContactWriter({
	database,
	registry,
	clock = () => performance.now(),
}: ContactWriterOptions): ContactWriter {
	let queue: Waiting[] = [];
	let groups = 0;
	/** Those of them that have taken long already. */
	let late = 0;
	let starting = false;
	/** How many may be under way, and how many contacts one may have, by how long the last ones took. */
	let allowedGroups = mostGroups.usual;
	let allowedSize = groupSize.first;
	/** Calls that have no answer yet, and those that were answered well. */
	let unanswered = 0;
	let answered = 0;
	/** Chats in the groups under way. */
	const busy = new Set<number>();
	const sizes = new Histogram({
		name: 'contact_group_size',
		help: 'Contacts that were written by one statement.',
		buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
		registers: [registry],
	});
	const split = new Counter({
		name: 'contact_groups_split_total',
		help: 'Groups that failed, whose contacts were then written one by one.',
		registers: [registry],
	});
	new Gauge({
		name: 'contact_writes_waiting',
		help: 'Contacts that are being written, or wait for it.',
		registers: [registry],
		collect() {
			this.set(unanswered);
		},
	});

	/** What else has come in this turn of the event loop is in the queue by then. */
	function startSoon(): void {
		if (!starting) setImmediate(startGroups);
		starting = true;
	}

	function startGroups(): void {
		starting = false;
		while (queue.length > 0 && groups < Math.min(Math.max(allowedGroups, late + 1), mostGroups.slow)) {
			const chats = takeGroup();
			if (chats.size === 0) return;
			groups++;
			const begun = clock();
			let isLate = false;
			const overdue = setTimeout(() => {
				isLate = true;
				late++;
				startSoon();
			}, slow);
			void write(chats).finally(() => {
				clearTimeout(overdue);
				if (isLate) late--;
				groups--;
				adapt([...chats.values()].flat().length, clock() - begun);
				for (const chat of chats.keys()) busy.delete(chat);
				startSoon();
			});
		}
	}

	/** @param time milliseconds that a group of this size took */
	function adapt(size: number, time: number): void {
		allowedGroups = time > slow ? mostGroups.slow : mostGroups.usual;
		if (time > groupTime.shrink) allowedSize = Math.max(1, Math.floor(size / 2));
		else if (time < groupTime.grow && size === allowedSize) allowedSize = Math.min(groupSize.most, size * 2);
	}

	/** The next contacts of chats that are not being written, by chat, in the order in which they came. */
	function takeGroup(): Map<number, Waiting[]> {
		const chats = new Map<number, Waiting[]>();
		let taken = 0;
		queue = queue.filter((waiting) => {
			if (waiting.settled) return false;
			const chat = waiting.contact.chat_id;
			if (taken === allowedSize || busy.has(chat)) return true;
			const before = chats.get(chat);
			if (before === undefined) chats.set(chat, [waiting]);
			else before.push(waiting);
			waiting.hadTurn = true;
			taken++;
			return false;
		});
		for (const chat of chats.keys()) busy.add(chat);
		if (taken > 0) sizes.observe(taken);
		return chats;
	}

	async function write(chats: Map<number, Waiting[]>): Promise<void> {
		const members = [...chats.values()];
		if (members.flat().length === 1) return void (await Promise.all(members.map(writeOneByOne)));
		try {
			const saved = await savePersonalContacts(database, members.map(merge));
			for (const [chat, waiting] of chats) for (const { resolve } of waiting) resolve(saved.has(chat));
		} catch {
			// One of them may be the reason: each is tried by itself, so that it can't fail its neighbours.
			split.inc();
			await Promise.all(members.map(writeOneByOne));
		}
	}

	async function writeOneByOne(members: readonly Waiting[]): Promise<void> {
		for (const waiting of members) {
			if (!waiting.settled) await savePersonalContact(database, waiting).then(waiting.resolve, waiting.reject);
		}
	}

	return {
		save(sent) {
			if (queue.length >= mostWaiting) return Promise.reject(new DatabaseBusyError());
			return new Promise((resolve, reject) => {
				const before = answered;
				const settle = () => {
					if (!waiting.settled) unanswered--;
					waiting.settled = true;
					clearTimeout(timer);
				};
				const waiting: Waiting = {
					...sent,
					hadTurn: false,
					settled: false,
					resolve(saved) {
						settle();
						answered++;
						resolve(saved);
					},
					reject(error) {
						settle();
						reject(error);
					},
				};
				const timer = setTimeout(() => {
					// One that is still in the queue, while others were answered, has waited for its turn.
					const overloaded = !waiting.hadTurn && answered > before;
					waiting.reject(
						overloaded ? new DatabaseBusyError() : new DatabaseError(new DeadlineError(deadline, waiting.hadTurn)),
					);
				}, deadline);
				unanswered++;
				queue.push(waiting);
				startSoon();
			});
		},
	};
}

/** What contacts sent to one chat come to when they are applied one after the other: the last that has a field counts. */
function merge(members: readonly Waiting[]): SentContact {
	const [first, ...rest] = members as [Waiting, ...Waiting[]];
	return rest.reduce<SentContact>(
		(before, { contact, projectId }) => ({ contact: { ...before.contact, ...contact }, projectId }),
		first,
	);
}
