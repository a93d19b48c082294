import type { Database } from '@contacts/common/database/database.js';
import { type Deadline, remainingMs } from '@contacts/common/database/deadline.js';
import { classify, DeadlineError } from '@contacts/common/database/errors.js';
import { gauge } from '@contacts/common/observability/metrics.js';
import { Counter, Histogram, type Registry } from 'prom-client';
import { type SentContact, savePersonalContacts } from './personal-contacts.sql.js';

export interface UpsertBatcher {
	/**
	 * Saves a contact, unless its chat has an active direct subscription. Contacts of the same chat are applied in the order of
	 * the calls.
	 *
	 * @param startedAt when the request began, in milliseconds of `performance.now()`; its deadline counts from then
	 * @returns whether it was saved; the row is then durably committed
	 * @throws DatabaseError, DatabaseBusyError: see `Admission`
	 */
	save(sent: SentContact, startedAt?: number): Promise<boolean>;
}

interface UpsertBatcherOptions {
	database: Database;
	registry: Registry;
}

/** A batch that takes longer counts as slow, and others do not wait for it. A commit takes a few milliseconds. */
const slowBatchMs = 50;

/** Normally one batch at a time. Slow ones do not count, up to the size of the default pool. */
const normalBatches = 1;
const maxBatches = 10;

/** A second one starts when this many contacts wait: it is executed while the first is committed. A smaller one costs more. */
const minSecondBatch = 16;

/** Initial and maximum number of contacts in a statement. A higher maximum did not raise the throughput. */
const firstBatchSize = 16;
const maxBatchSize = 256;

/** Batches may grow while they take less than `growBelowMs`, and shrink when they take more than `shrinkAboveMs`. */
const growBelowMs = 100;
const shrinkAboveMs = 250;

/** Minimum time that a contact must have left to enter a batch: the statement gets no more time than its oldest contact. */
const minTimeLeftMs = 1000;

/** Maximum wait of a batch for a locked row, because all of its contacts wait with it. */
const batchLockTimeoutMs = 500;

interface Waiting extends SentContact {
	deadline: Deadline;
	/** Ends the wait for a place in a batch. A contact that waits for its own chat waits for no place. */
	endWaiting: () => void;
	/** Rejects the contact if it does not enter a batch in time. From then on, the database enforces the time. */
	timer: NodeJS.Timeout;
	resolve(saved: boolean): void;
	reject(error: unknown): void;
}

/**
 * Writes contacts in batches. Contacts that arrive while statements are in progress wait, and then one statement writes them.
 * Nothing waits for a batch to fill, so a service without load writes each contact at once. When the rows themselves are slow,
 * batches are small and many, so that no batch delays its members.
 *
 * A chat that is being written is left out of the next batch. This keeps the order, and no statement waits for another's row.
 */
export function createUpsertBatcher({ database, registry }: UpsertBatcherOptions): UpsertBatcher {
	let queue: Waiting[] = [];
	let batches = 0;
	/** Current batches that are already slow. */
	let slowBatches = 0;
	let starting = false;
	let allowedBatches = normalBatches;
	let allowedSize = firstBatchSize;
	/** The contacts that are being written, by chat. */
	const writing = new Map<number, readonly Waiting[]>();
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
	gauge(registry, 'upserts_waiting', 'Contacts that are being written, or wait for it.', () =>
		[...writing.values()].reduce((sum, { length }) => sum + length, queue.length),
	);

	/** Runs after everything else that arrives in this turn of the event loop has been queued. */
	function startSoon(): void {
		if (!starting) setImmediate(startBatches);
		starting = true;
	}

	function startBatches(): void {
		starting = false;
		while (queue.length > 0 && batches < maxBatchesNow()) {
			const chats = takeBatch();
			if (chats.size === 0) return;
			const members = [...chats.values()].flat();
			batches++;
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
				adapt(members.length, performance.now() - startedAt);
				for (const written of chats.values()) release(written);
			});
		}
	}

	function maxBatchesNow(): number {
		const fastBatches = queue.length < minSecondBatch ? normalBatches : normalBatches + 1;
		return Math.min(Math.max(allowedBatches, slowBatches + fastBatches), maxBatches);
	}

	function adapt(size: number, tookMs: number): void {
		allowedBatches = tookMs > slowBatchMs ? maxBatches : normalBatches;
		if (tookMs > shrinkAboveMs) allowedSize = Math.max(1, Math.floor(size / 2));
		else if (tookMs < growBelowMs && size === allowedSize) allowedSize = Math.min(maxBatchSize, size * 2);
	}

	/**
	 * Lets the chat of these contacts enter the next batch. If a batch was split, each chat is released as soon as its own
	 * contacts were written, because a neighbour may wait for a locked row for seconds.
	 */
	function release(members: readonly Waiting[]): void {
		for (const { contact } of members) if (writing.get(contact.chat_id) === members) writing.delete(contact.chat_id);
		startSoon();
	}

	/** Returns the next contacts of chats that are not being written, by chat, in the order of arrival. */
	function takeBatch(): Map<number, Waiting[]> {
		const chats = new Map<number, Waiting[]>();
		let taken = 0;
		const minUntil = performance.now() + minTimeLeftMs;
		queue = queue.filter((waiting) => {
			const chat = waiting.contact.chat_id;
			if (taken === allowedSize || writing.has(chat) || waiting.deadline.expiresAt < minUntil) return true;
			const earlier = chats.get(chat);
			if (earlier === undefined) chats.set(chat, [waiting]);
			else earlier.push(waiting);
			clearTimeout(waiting.timer);
			waiting.endWaiting();
			taken++;
			return false;
		});
		for (const [chat, members] of chats) writing.set(chat, members);
		if (taken > 0) sizes.observe(taken);
		return chats;
	}

	/** @param chats the contacts of each chat, in their order */
	async function write(chats: readonly Waiting[][], members: readonly Waiting[]): Promise<void> {
		if (members.length === 1) return writeOneByOne(members);
		try {
			const deadline = {
				startedAt: performance.now(),
				expiresAt: Math.min(...members.map((waiting) => waiting.deadline.expiresAt)),
			};
			const options = { deadline, lockTimeoutMs: batchLockTimeoutMs };
			const saved = await savePersonalContacts(database, chats.map(merge), options);
			for (const { contact, resolve } of members) resolve(saved.has(contact.chat_id));
		} catch (error) {
			if (classify(error).reason === 'connection' || (error instanceof DeadlineError && !error.wasSent)) {
				for (const { reject } of members) reject(error);
				return;
			}
			// One contact may be the cause. Each is tried alone, so that it cannot make its neighbours fail.
			split.inc();
			await Promise.all(chats.map(writeOneByOne));
		}
	}

	async function writeOneByOne(members: readonly Waiting[]): Promise<void> {
		for (const waiting of members) {
			await savePersonalContacts(database, [waiting], { deadline: waiting.deadline }).then(
				(saved) => waiting.resolve(saved.has(waiting.contact.chat_id)),
				waiting.reject,
			);
		}
		release(members);
	}

	return {
		save: ({ contact, projectId }, startedAt) =>
			database.admit(
				(deadline) =>
					new Promise((resolve, reject) => {
						const timer = setTimeout(() => {
							queue.splice(queue.indexOf(waiting), 1);
							waiting.endWaiting();
							reject(new DeadlineError(deadline.expiresAt - deadline.startedAt, false));
						}, remainingMs(deadline));
						const endWaiting = writing.has(contact.chat_id) ? () => undefined : database.startWaiting();
						// Not by a spread, which costs each upsert two microseconds.
						const waiting: Waiting = { contact, projectId, deadline, endWaiting, timer, resolve, reject };
						queue.push(waiting);
						startSoon();
					}),
				startedAt,
			),
	};
}

/** Merges the contacts sent to one chat, in order: for each field the last contact that has it counts. */
function merge(members: readonly Waiting[]): SentContact {
	const [first, ...rest] = members as [Waiting, ...Waiting[]];
	return rest.reduce<SentContact>(
		(before, { contact, projectId }) => ({ contact: { ...before.contact, ...contact }, projectId }),
		first,
	);
}
