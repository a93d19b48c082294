import type { Database } from '@contacts/common/database/database.js';
import { DatabaseBusyError, DatabaseError, DeadlineError, failureReason } from '@contacts/common/database/errors.js';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { type SentContact, savePersonalContacts } from './personal-contacts.sql.js';

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
/** Milliseconds after which a caller gets a response, whatever becomes of its contact. */
const deadline = 4000;
/** Milliseconds that a contact must have left to be put into a group, whose statement gets no more time than its oldest contact. */
const minTimeLeft = 1000;
/** Milliseconds for which a group waits for a row that somebody else holds, because all of its contacts wait with it. */
const groupLockTimeout = 500;

interface Waiting extends SentContact {
	/** When its caller needs a response, in milliseconds of `performance.now()`. */
	until: number;
	/** Rejects it when it is not its turn in time. From then on, the database keeps the time. */
	timer: NodeJS.Timeout;
	resolve(saved: boolean): void;
	reject(error: unknown): void;
}

/**
 * Writes contacts in groups: what comes while statements are under way waits, and is then written by one statement. Nothing
 * waits for a group to fill, so a service without load writes each contact at once. Where the rows themselves take their
 * time, groups are small and many, so that none holds up its members.
 *
 * A chat that is being written is left out of the next group: so the order is kept, and no statement waits for another's row.
 */
export function createContactWriter({ database, registry }: ContactWriterOptions): ContactWriter {
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
			const begun = performance.now();
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
				adapt([...chats.values()].flat().length, performance.now() - begun);
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
		const latest = performance.now() + minTimeLeft;
		queue = queue.filter((waiting) => {
			const chat = waiting.contact.chat_id;
			if (taken === allowedSize || busy.has(chat) || waiting.until < latest) return true;
			const before = chats.get(chat);
			if (before === undefined) chats.set(chat, [waiting]);
			else before.push(waiting);
			clearTimeout(waiting.timer);
			taken++;
			return false;
		});
		for (const chat of chats.keys()) busy.add(chat);
		if (taken > 0) sizes.observe(taken);
		return chats;
	}

	async function write(chats: Map<number, Waiting[]>): Promise<void> {
		const groups = [...chats.values()];
		const members = groups.flat();
		if (members.length === 1) return writeOneByOne(members);
		try {
			const until = Math.min(...members.map((waiting) => waiting.until));
			const saved = await savePersonalContacts(database, groups.map(merge), { until, lockTimeout: groupLockTimeout });
			for (const { contact, resolve } of members) resolve(saved.has(contact.chat_id));
		} catch (error) {
			const reason = failureReason(error);
			if (reason === 'connection' || reason === 'busy') {
				for (const { reject } of members) reject(error);
				return;
			}
			// One of them may be the reason: each is tried by itself, so that it can't fail its neighbours.
			split.inc();
			await Promise.all(groups.map(writeOneByOne));
		}
	}

	async function writeOneByOne(members: readonly Waiting[]): Promise<void> {
		for (const waiting of members) {
			await savePersonalContacts(database, [waiting], waiting).then(
				(saved) => waiting.resolve(saved.has(waiting.contact.chat_id)),
				waiting.reject,
			);
		}
	}

	return {
		save(sent) {
			if (queue.length >= mostWaiting) return Promise.reject(new DatabaseBusyError());
			const before = answered;
			unanswered++;
			return new Promise<boolean>((resolve, reject) => {
				const waiting: Waiting = {
					...sent,
					until: performance.now() + deadline,
					timer: setTimeout(() => {
						queue.splice(queue.indexOf(waiting), 1);
						// Others were answered: it has waited for its turn.
						const overloaded = answered > before;
						reject(overloaded ? new DatabaseBusyError() : new DatabaseError(new DeadlineError(deadline, false)));
					}, deadline),
					resolve(saved) {
						answered++;
						resolve(saved);
					},
					reject,
				};
				queue.push(waiting);
				startSoon();
			}).finally(() => unanswered--);
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
