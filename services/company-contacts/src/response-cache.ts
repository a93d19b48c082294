import { type Deadline, remainingMs } from '@contacts/common/database/deadline.js';
import { classify } from '@contacts/common/database/errors.js';
import type { DatabaseState } from '@contacts/common/database/state-poll.js';
import { createRepresentations, type Representations } from '@contacts/common/http/representations.js';
import { LRUCache } from 'lru-cache';
import { type ContactsState, contactsOf } from './contacts-state.sql.js';

/** A response, and the state that it belongs to. */
export interface CachedResponse {
	/** See `DatabaseState`. */
	generation: number;
	/** The version of the contacts. */
	version: number;
	/** Undefined if the response is too large for memory. */
	representations: Representations | undefined;
}

interface ResponseCacheOptions<Response> {
	/** Maximum number of responses, whatever their size. */
	maxEntries: number;
	/** Maximum size of all responses together, in bytes. */
	maxBytes: number;
	/** Representations that any number of responses share, so that they count as nothing. */
	shared?: Representations;
	/** Whether a response is still current in a later state of the same generation. */
	isCurrent(response: Response, contacts: ContactsState): boolean;
	/** Called for each response that is served. */
	onServed(response: Response, source: 'memory' | 'database'): void;
}

/** What an entry takes in memory besides its response, rounded up. */
const entryBytes = 800;

/**
 * Keeps responses as bytes. One version of the contacts, which the poll confirms, covers all of them. Only a response that is new
 * or may have changed is read, and concurrent requests for it share one query. See docs/decisions/list-cache.md.
 */
export class ResponseCache<Response extends CachedResponse> {
	readonly #responses: LRUCache<string, Response>;
	/** Queries under way, each of which any number of callers share. */
	readonly #queries = new Map<string, Promise<Response>>();

	constructor(readonly options: ResponseCacheOptions<Response>) {
		const { maxEntries, maxBytes, shared } = options;
		this.#responses = new LRUCache<string, Response>({
			max: maxEntries,
			maxSize: maxBytes,
			sizeCalculation: ({ representations }) =>
				entryBytes + (representations === undefined || representations === shared ? 0 : representations.size),
		});
	}

	/** The size of all responses together, in bytes. */
	get bytes(): number {
		return this.#responses.calculatedSize;
	}

	/**
	 * Returns a response that is in memory and current, without waiting.
	 *
	 * @param state that was confirmed for this request
	 */
	find(key: string, state: DatabaseState): Response | undefined {
		const response = this.#responses.get(key);
		if (response?.generation !== state.generation) return undefined;
		if (!this.options.isCurrent(response, contactsOf(state))) return undefined;
		this.options.onServed(response, 'memory');
		return response;
	}

	/** Returns such a response, or what the query reads. */
	async read(key: string, state: DatabaseState, deadline: Deadline, query: () => Promise<Response>): Promise<Response> {
		const known = this.find(key, state);
		if (known !== undefined) return known;
		const { generation } = state;
		const { version } = contactsOf(state);
		// A query that was sent in an earlier state may lack a change, so only requests of the same state share it.
		const read = await this.#join(`${generation} ${version} ${key}`, deadline, async () => {
			const response = await query();
			this.keep(key, response);
			return response;
		});
		this.options.onServed(read, 'database');
		return read;
	}

	keep(key: string, response: Response): void {
		const known = this.#responses.peek(key);
		// A query that was sent later may have ended before.
		if (known?.generation !== response.generation || known.version <= response.version)
			this.#responses.set(key, response);
	}

	/** What is kept under a key, current or not. */
	peek(key: string): Representations | undefined {
		return this.#responses.peek(key)?.representations;
	}

	/** Creates the representations of a response to be kept under this key. */
	represent(key: string, body: Buffer): Representations {
		const made = createRepresentations(body, () => {
			// Another representation adds bytes, so the entry's size is calculated again.
			const entry = this.#responses.peek(key);
			if (entry?.representations === made) this.#responses.set(key, { ...entry });
		});
		return made;
	}

	/**
	 * Joins the query with this key, or starts one. A query fails at the deadline of the caller that started it. One that joined
	 * it and has time left asks again, once.
	 */
	async #join(key: string, deadline: Deadline, query: () => Promise<Response>): Promise<Response> {
		const start = () => {
			const shared = query().finally(() => this.#queries.delete(key));
			this.#queries.set(key, shared);
			return shared;
		};
		const known = this.#queries.get(key);
		if (known === undefined) return start();
		try {
			return await known;
		} catch (error) {
			if (classify(error).reason !== 'deadline' || remainingMs(deadline) <= 0) throw error;
			return this.#queries.get(key) ?? start();
		}
	}
}
