import type { Database } from '@contacts/common/database/database.js';
import { type Deadline, remainingMs } from '@contacts/common/database/deadline.js';
import { classify, DeadlineError } from '@contacts/common/database/errors.js';
import { gauge } from '@contacts/common/observability/metrics.js';
import { Counter, Histogram, type Registry } from 'prom-client';
import { type Outcome, type SentContact, savePersonalContacts } from './personal-contacts.sql.js';

export interface UpsertBatcher {
	/**
	 * Saves a contact, unless its chat has an active direct subscription. Contacts of the same chat are applied in the order of
	 * the calls.
	 *
	 * @returns its outcome; a saved row is durably committed
	 * @throws DatabaseError, DatabaseBusyError: see `Admission`
	 */
	save(sent: SentContact, deadline: Deadline): Promise<Outcome>;
}

/** The second batch is executed while the first is committed. */
const maxBatches = 2;

/** The second batch starts with fewer contacts only if the first is slow: small batches cost PostgreSQL more for each contact. */
const minSecondBatch = 8;

/** A batch that takes longer waits for the disk or the network. A commit takes a few milliseconds. */
const slowBatchMs = 50;

/** Maximum number of chats in a batch. */
const maxBatchSize = 64;

/** A contact with less time left does not enter a batch: the statement gets no more time than its oldest contact. */
const minTimeLeftMs = 500;

interface Waiting extends SentContact {
	deadline: Deadline;
	/** Ends the wait for a place in a batch. A contact that waits for its own chat waits for no place. */
	endWaiting: () => void;
	/** Rejects the contact if it does not enter a batch in time. From then on, the database enforces the time. */
	timer: NodeJS.Timeout;
	resolve(outcome: Outcome): void;
	reject(error: unknown): void;
}

/** The contacts of one chat, in the order of arrival. */
type ChatContacts = [Waiting, ...Waiting[]];

/**
 * Writes contacts in batches. Contacts that arrive while batches are in progress wait, and then one statement writes them.
 * A service without load writes each contact at once.
 *
 * A chat that is being written is left out of the next batches. This keeps the order, and no statement waits for another's row.
 */
export function createUpsertBatcher({ database, registry }: { database: Database; registry: Registry }): UpsertBatcher {
	let queue: Waiting[] = [];
	/** The contacts that are being written, by chat. */
	const writing = new Map<number, ChatContacts>();
	let batches = 0;
	/** Batches in progress that are slow. */
	let slowBatches = 0;
	let starting = false;
	const sizes = new Histogram({
		name: 'upsert_batch_size',
		help: 'Contacts that were written by one statement.',
		buckets: [1, 2, 4, 8, 16, 32, 64, 128],
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
		while (batches < maxBatches) {
			if (batches > slowBatches && queue.length < minSecondBatch) return;
			const batch = takeBatch();
			if (batch.size === 0) return;
			batches++;
			void writeTogether(batch);
		}
	}

	/** Takes the next contacts of chats that are not being written. */
	function takeBatch(): Map<number, ChatContacts> {
		const batch = new Map<number, ChatContacts>();
		queue = queue.filter((waiting) => {
			const chat = waiting.contact.chat_id;
			const earlier = batch.get(chat);
			if (writing.has(chat) || (earlier === undefined && batch.size === maxBatchSize)) return true;
			if (earlier === undefined) batch.set(chat, [waiting]);
			else earlier.push(waiting);
			clearTimeout(waiting.timer);
			waiting.endWaiting();
			return false;
		});
		for (const [chat, contacts] of batch) writing.set(chat, contacts);
		return batch;
	}

	/** The chats of a batch that was refused, and those without an outcome, are written one by one while other batches run. */
	async function writeTogether(batch: Map<number, ChatContacts>): Promise<void> {
		const chats = [...batch.values()];
		const members = chats.flat();
		sizes.observe(members.length);
		const deadline = {
			startedAt: Math.min(...members.map((waiting) => waiting.deadline.startedAt)),
			expiresAt: Math.min(...members.map((waiting) => waiting.deadline.expiresAt)),
		};
		let isSlow = false;
		const slow = setTimeout(() => {
			isSlow = true;
			slowBatches++;
			startSoon();
		}, slowBatchMs);
		try {
			const outcomes = await savePersonalContacts(database, chats.map(merge), deadline, 'batch');
			for (const [chat, contacts] of batch) {
				const outcome = outcomes.get(chat);
				if (outcome === undefined) void writeOneByOne(chat, contacts);
				else for (const { resolve } of release(chat, contacts)) resolve(outcome);
			}
		} catch (error) {
			// Alone they are sent again after a refusal, such as of a locked row, and a batch has the time of its oldest contact.
			const { isSentAgain, isRefused } = classify(error);
			if (isSentAgain || isRefused) {
				split.inc();
				for (const [chat, contacts] of batch) void writeOneByOne(chat, contacts);
			} else {
				for (const [chat, contacts] of batch) for (const { reject } of release(chat, contacts)) reject(error);
			}
		} finally {
			clearTimeout(slow);
			if (isSlow) slowBatches--;
			batches--;
			startSoon();
		}
	}

	async function writeOneByOne(chat: number, contacts: ChatContacts): Promise<void> {
		for (const waiting of contacts) await writeAlone(waiting).then(waiting.resolve, waiting.reject);
		release(chat, contacts);
	}

	async function writeAlone({ contact, projectId, deadline }: Waiting): Promise<Outcome> {
		const outcomes = await savePersonalContacts(database, [{ contact, projectId }], deadline, 'alone');
		return outcomes.get(contact.chat_id) as Outcome;
	}

	/** Lets the next contacts of this chat enter a batch. */
	function release(chat: number, contacts: ChatContacts): ChatContacts {
		writing.delete(chat);
		startSoon();
		return contacts;
	}

	return {
		save: ({ contact, projectId }, deadline) =>
			database.admit(
				() =>
					new Promise((resolve, reject) => {
						const expire = () => {
							queue.splice(queue.indexOf(waiting), 1);
							waiting.endWaiting();
							reject(new DeadlineError(deadline.expiresAt - deadline.startedAt, false));
						};
						const timer = setTimeout(expire, Math.max(0, remainingMs(deadline) - minTimeLeftMs));
						const endWaiting = writing.has(contact.chat_id) ? () => undefined : database.startWaiting();
						// Not by a spread, which costs each upsert two microseconds.
						const waiting: Waiting = { contact, projectId, deadline, endWaiting, timer, resolve, reject };
						queue.push(waiting);
						startSoon();
					}),
			),
	};
}

/** Merges the contacts of one chat: for each field the last contact that has it counts. */
function merge([first, ...later]: ChatContacts): SentContact {
	return later.reduce<SentContact>(
		(before, { contact, projectId }) => ({ contact: { ...before.contact, ...contact }, projectId }),
		first,
	);
}
