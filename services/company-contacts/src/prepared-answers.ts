import type { ChangeSubscription } from '@contacts/common/database/change-listener.js';
import type { Database } from '@contacts/common/database/database.js';
import { DatabaseBusyError } from '@contacts/common/database/errors.js';
import { LRUCache } from 'lru-cache';
import { Counter, Gauge, type Registry } from 'prom-client';
import { type ListedContacts, readCompanyContacts } from './company-contacts.sql.js';
import { type PreparedAnswer, prepareAnswer } from './prepared-answer.js';

export interface PreparedAnswers {
	/**
	 * @returns undefined when the list is too large for memory
	 * @throws DatabaseError, DatabaseBusyError: never an old list as if it were new
	 */
	get(companyId: string | undefined): Promise<PreparedAnswer | undefined>;
	/** Forgets everything: a contact has changed, or may have. */
	forget(): void;
}

export interface PreparedAnswersOptions {
	database: Database;
	/** Told of every change; without being told, nothing is kept. */
	changes: Pick<ChangeSubscription, 'current'>;
	registry: Registry;
	/** Bytes that all answers together may take. */
	maxBytes: number;
	/** Bytes that the largest of them may take. */
	maxListBytes: number;
	/** Milliseconds that never go back. */
	clock: () => number;
}

/** Milliseconds for which an answer is kept at the most: what a lost notification could do is bounded by it. */
const maxAge = 2000;

interface Entry {
	/** Undefined: too large. */
	answer: PreparedAnswer | undefined;
	/** When the query began. */
	asked: number;
}

/**
 * Keeps the lists that were asked for as prepared bytes. However many ask for a list that is not kept, one query is made;
 * what was read before a change may not be kept after it, so a query that began before the notice came is answered and
 * forgotten.
 */
export function keepPreparedAnswers({
	database,
	changes,
	registry,
	maxBytes,
	maxListBytes,
	clock,
}: PreparedAnswersOptions): PreparedAnswers {
	const kept = new LRUCache<string, Entry>({
		maxSize: maxBytes,
		// What an entry costs beside its bytes: a company without contacts must not be free.
		sizeCalculation: ({ answer }) => (answer?.size ?? 0) + 500,
	});
	let asking = new Map<string, Promise<PreparedAnswer | undefined>>();
	const registers = [registry];
	const lists = new Counter({
		name: 'list_answers_total',
		help: 'Lists, by whether they came from memory, from the database, or were too large and streamed.',
		labelNames: ['from'],
		registers,
	});
	for (const from of ['memory', 'database', 'stream']) lists.inc({ from }, 0);
	new Gauge({
		name: 'list_answers_bytes',
		help: 'Bytes of the prepared lists in memory.',
		registers,
		collect() {
			this.set(kept.calculatedSize);
		},
	});

	async function ask(key: string, companyId: string | undefined): Promise<PreparedAnswer | undefined> {
		const mine = asking;
		const asked = clock();
		try {
			const contacts = await readCompanyContacts(database, companyId, Math.min(maxListBytes, maxBytes));
			const made =
				contacts &&
				prepareAnswer(bodyOf(contacts), () => {
					// An encoding more is more bytes: the entry is weighed again.
					if (kept.peek(key)?.answer === made) kept.set(key, { answer: made, asked });
				});
			// The same list again: clients that read slowly hold the bytes that they are sent, and must not hold many copies.
			const before = kept.peek(key)?.answer;
			const answer = made !== undefined && before?.digest === made.digest ? before : made;
			if (mine === asking && changes.current) kept.set(key, { answer, asked });
			return answer;
		} finally {
			if (mine === asking) asking.delete(key);
		}
	}

	function begin(key: string, companyId: string | undefined): Promise<PreparedAnswer | undefined> {
		const query = ask(key, companyId);
		asking.set(key, query);
		return query;
	}

	return {
		async get(companyId) {
			const key = companyId ?? 'all';
			const entry = changes.current ? kept.get(key) : undefined;
			const fresh = entry !== undefined && clock() - entry.asked < maxAge;
			if (!fresh && database.isFull) throw new DatabaseBusyError();
			const answer = fresh ? entry.answer : await database.admit(() => asking.get(key) ?? begin(key, companyId));
			lists.inc({ from: answer === undefined ? 'stream' : fresh ? 'memory' : 'database' });
			return answer;
		},
		forget() {
			kept.clear();
			// Who asks from now on must not get what was read before.
			asking = new Map();
		},
	};
}

function bodyOf({ count, elements }: ListedContacts): Buffer {
	return Buffer.concat([Buffer.from(`{"count":${count},"data":[`), elements, Buffer.from(']}')]);
}
