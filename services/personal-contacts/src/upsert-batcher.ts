import type { Turn } from '@contacts/common/database/admission.js';
import type { Database } from '@contacts/common/database/database.js';
import { DeadlineError, failureReason } from '@contacts/common/database/errors.js';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { type SentContact, savePersonalContacts } from './personal-contacts.sql.js';

export interface UpsertBatcher {
	/**
	 * Saves a contact, unless its chat has an active direct subscription. What is sent to the same chat is applied in the
	 * order of the calls.
	 *
	 * @returns whether it was saved; the row is durably committed then
	 * @throws DatabaseError, DatabaseBusyError: see `Admission`
	 */
	save(sent: SentContact): Promise<boolean>;
}

interface UpsertBatcherOptions {
	database: Database;
	registry: Registry;
}

/** A batch that takes longer counts as slow: others don't wait for it. A commit takes some milliseconds. */
const slowBatchMs = 50;

/** Batches under way at once: more than one would only be smaller, but for slow ones. As many as the default pool has connections. */
const maxBatches = 1;
const maxSlowBatches = 10;

/** Contacts in one statement, at first and at most. More than the second didn't raise the throughput. */
const firstBatchSize = 16;
const maxBatchSize = 256;

/** Batches may grow while they take less than the first, and shrink when they take more than the second. */
const growBelowMs = 100;
const shrinkAboveMs = 250;

/** What a contact must have left to be put into a batch, whose statement gets no more time than its oldest contact. */
const minTimeLeftMs = 1000;

/** For which a batch waits for a row that somebody else has locked, because all of its contacts wait with it. */
const batchLockTimeoutMs = 500;

interface Waiting extends SentContact {
	turn: Turn;
	/** Rejects it when it is not put into a batch in time. From then on, the database keeps the time. */
	timer: NodeJS.Timeout;
	resolve(saved: boolean): void;
	reject(error: unknown): void;
}

/**
 * Writes contacts in batches: what comes while statements are under way waits, and is then written by one statement. Nothing
 * waits for a batch to fill, so a service without load writes each contact at once. Where the rows themselves take their
 * time, batches are small and many, so that none holds up its members.
 *
 * A chat that is being written is left out of the next batch: so the order is kept, and no statement waits for another's row.
 */
export function createUpsertBatcher({ database, registry }: UpsertBatcherOptions): UpsertBatcher {
	let queue: Waiting[] = [];
	/** Contacts in the batches under way. */
	let writing = 0;
	let batches = 0;
	/** Batches under way that are slow already. */
	let slowBatches = 0;
	let starting = false;
	let allowedBatches = maxBatches;
	let allowedSize = firstBatchSize;
	/** Chats in the batches under way. */
	const busyChats = new Set<number>();
	const sizes = new Histogram({
		name: 'upsert_batch_size',
		help: 'Contacts that were written by one statement.',
		buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
		registers: [registry],
	});
	const split = new Counter({
		name: 'upsert_batches_split_total',
		help: 'Batches that failed, whose contacts were then written one by one.',
		registers: [registry],
	});
	new Gauge({
		name: 'upserts_waiting',
		help: 'Contacts that are being written, or wait for it.',
		registers: [registry],
		collect() {
			this.set(queue.length + writing);
		},
	});

	/** What else has come in this turn of the event loop is in the queue by then. */
	function startSoon(): void {
		if (!starting) setImmediate(startBatches);
		starting = true;
	}

	function startBatches(): void {
		starting = false;
		while (queue.length > 0 && batches < Math.min(Math.max(allowedBatches, slowBatches + 1), maxSlowBatches)) {
			const chats = takeBatch();
			if (chats.size === 0) return;
			const members = [...chats.values()].flat();
			batches++;
			writing += members.length;
			const startedAt = performance.now();
			let isSlow = false;
			const timer = setTimeout(() => {
				isSlow = true;
				slowBatches++;
				startSoon();
			}, slowBatchMs);
			void write([...chats.values()], members).finally(() => {
				clearTimeout(timer);
				if (isSlow) slowBatches--;
				batches--;
				writing -= members.length;
				adapt(members.length, performance.now() - startedAt);
				for (const chat of chats.keys()) busyChats.delete(chat);
				startSoon();
			});
		}
	}

	function adapt(size: number, tookMs: number): void {
		allowedBatches = tookMs > slowBatchMs ? maxSlowBatches : maxBatches;
		if (tookMs > shrinkAboveMs) allowedSize = Math.max(1, Math.floor(size / 2));
		else if (tookMs < growBelowMs && size === allowedSize) allowedSize = Math.min(maxBatchSize, size * 2);
	}

	/** The next contacts of chats that are not being written, by chat, in the order in which they came. */
	function takeBatch(): Map<number, Waiting[]> {
		const chats = new Map<number, Waiting[]>();
		let taken = 0;
		const minUntil = performance.now() + minTimeLeftMs;
		queue = queue.filter((waiting) => {
			const chat = waiting.contact.chat_id;
			if (taken === allowedSize || busyChats.has(chat) || waiting.turn.until < minUntil) return true;
			const earlier = chats.get(chat);
			if (earlier === undefined) chats.set(chat, [waiting]);
			else earlier.push(waiting);
			clearTimeout(waiting.timer);
			taken++;
			return false;
		});
		for (const chat of chats.keys()) busyChats.add(chat);
		if (taken > 0) sizes.observe(taken);
		return chats;
	}

	/** @param chats the contacts of each chat, in their order */
	async function write(chats: readonly Waiting[][], members: readonly Waiting[]): Promise<void> {
		if (members.length === 1) return writeOneByOne(members);
		try {
			const turn = { askedAt: performance.now(), until: Math.min(...members.map((waiting) => waiting.turn.until)) };
			const saved = await savePersonalContacts(database, chats.map(merge), { turn, lockTimeoutMs: batchLockTimeoutMs });
			for (const { contact, resolve } of members) resolve(saved.has(contact.chat_id));
		} catch (error) {
			if (failureReason(error) === 'connection' || (error instanceof DeadlineError && !error.hadTurn)) {
				for (const { reject } of members) reject(error);
				return;
			}
			// One of them may be the reason: each is tried by itself, so that it can't fail its neighbours.
			split.inc();
			await Promise.all(chats.map(writeOneByOne));
		}
	}

	async function writeOneByOne(members: readonly Waiting[]): Promise<void> {
		for (const waiting of members) {
			await savePersonalContacts(database, [waiting], { turn: waiting.turn }).then(
				(saved) => waiting.resolve(saved.has(waiting.contact.chat_id)),
				waiting.reject,
			);
		}
	}

	return {
		save: (sent) =>
			database.admit(
				(turn) =>
					new Promise((resolve, reject) => {
						const deadlineMs = turn.until - turn.askedAt;
						const timer = setTimeout(() => {
							queue.splice(queue.indexOf(waiting), 1);
							reject(new DeadlineError(deadlineMs, false));
						}, deadlineMs);
						const waiting: Waiting = { ...sent, turn, timer, resolve, reject };
						queue.push(waiting);
						startSoon();
					}),
			),
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
