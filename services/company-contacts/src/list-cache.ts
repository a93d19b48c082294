import { shareQuery, type Turn } from '@contacts/common/database/admission.js';
import type { ChangeSubscription } from '@contacts/common/database/change-listener.js';
import type { Database } from '@contacts/common/database/database.js';
import { DatabaseBusyError } from '@contacts/common/database/errors.js';
import { createRepresentations, type Representations } from '@contacts/common/http/representations.js';
import { counter, gauge } from '@contacts/common/observability/metrics.js';
import { LRUCache } from 'lru-cache';
import type { Registry } from 'prom-client';
import { type ListHead, readCompanyContacts, readListHead } from './company-contacts.sql.js';

/** A list as it was when its query started, or later. */
export interface CachedList extends ListHead {
	/** Undefined if the list is too large for memory. */
	representations: Representations | undefined;
}

export interface ListCache {
	/** Returns a list that is in memory and current, without waiting. */
	find(companyId: string | undefined): CachedList | undefined;
	/**
	 * Returns such a list, or reads it from the table.
	 *
	 * @throws DatabaseError, DatabaseBusyError: it never returns an old list as a current one
	 */
	read(companyId: string | undefined): Promise<CachedList>;
	/** Call it when a contact has changed, or may have. */
	invalidate(): void;
}

interface ListCacheOptions {
	database: Database;
	/** While the subscription is not current, nothing is served from memory. */
	subscription: Pick<ChangeSubscription, 'current'>;
	registry: Registry;
	/** Maximum size of all lists together, in bytes. */
	maxBytes: number;
	/** Maximum size of one list, in bytes. */
	maxListBytes: number;
	/** Monotonic milliseconds. */
	clock: () => number;
}

/** A list is served for this long after the version was last read. It bounds the effect of a lost notification. */
const maxAgeMs = 2000;

/** While lists are requested, the version is read this often in the background, so that no request waits for it. */
const checkIntervalMs = 500;

/** What an entry takes in memory besides its list, rounded up. */
const entryBytes = 800;

/** Maximum number of lists, whatever their size. */
const maxLists = 50_000;

const emptyBody = Buffer.from('{"count":0,"data":[]}');

/** Shared by all companies without contacts. */
const emptyList = createRepresentations(emptyBody);

/**
 * Keeps lists as bytes. One version of the table covers all lists: it is read once and says whether they are current. Only a
 * list that is new or may have changed is read. Concurrent requests for a list share one query. See
 * docs/decisions/list-cache.md.
 */
export function createListCache(options: ListCacheOptions): ListCache {
	const { database, subscription, registry, maxBytes, maxListBytes, clock } = options;
	const lists = new LRUCache<string, CachedList>({
		max: maxLists,
		maxSize: maxBytes,
		sizeCalculation: ({ representations }) =>
			entryBytes + (representations === undefined || representations === emptyList ? 0 : representations.size),
	});
	/** The state of the table at `checkedAt`, or later. */
	let head: ListHead = { version: '', syncedAt: null };
	let checkedAt = Number.NEGATIVE_INFINITY;
	/** Queries under way. Each invalidation starts a new set. */
	let underWay: { check?: Promise<void>; lists: Map<string, Promise<CachedList>> } = { lists: new Map() };
	const countResponse = counter(
		registry,
		'list_responses_total',
		'Lists, by their source: memory, the database, or a stream because they were too large.',
		'source',
		['memory', 'database', 'stream'],
	);
	gauge(registry, 'list_cache_bytes', 'Bytes of the lists in memory.', () => lists.calculatedSize);
	const keyOf = (companyId: string | undefined) => companyId ?? 'all';

	/** @param mine the set that was current when the query started: a result from before an invalidation proves nothing */
	function learn(read: ListHead, began: number, mine: typeof underWay): void {
		if (mine !== underWay || began < checkedAt) return;
		head = read;
		checkedAt = began;
	}

	function startCheck(askedAt?: number): Promise<void> {
		const [mine, began] = [underWay, clock()];
		mine.check = readListHead(database, askedAt)
			.then((read) => learn(read, began, mine))
			.finally(() => {
				delete mine.check;
			});
		return mine.check;
	}

	function representationsOf(key: string, body: Buffer): Representations {
		if (body.equals(emptyBody)) return emptyList;
		const made = createRepresentations(body, () => {
			// Another representation adds bytes, so the entry's size is calculated again.
			const entry = lists.peek(key);
			if (entry !== undefined && entry.representations === made) lists.set(key, { ...entry });
		});
		// The same list was read again. Reuse it: slow clients hold the bytes that they receive, and must not hold many copies.
		const known = lists.peek(key)?.representations;
		return known?.digest === made.digest ? known : made;
	}

	async function query(key: string, companyId: string | undefined, askedAt: number): Promise<CachedList> {
		const [mine, began] = [underWay, clock()];
		try {
			const { body, ...read } = await readCompanyContacts(
				database,
				companyId,
				Math.min(maxListBytes, maxBytes),
				askedAt,
			);
			learn(read, began, mine);
			const entry = { ...read, representations: body && representationsOf(key, body) };
			if (mine === underWay && subscription.current) lists.set(key, entry);
			return entry;
		} finally {
			mine.lists.delete(key);
		}
	}

	function startQuery(key: string, companyId: string | undefined, { askedAt }: Turn): Promise<CachedList> {
		const list = query(key, companyId, askedAt);
		underWay.lists.set(key, list);
		return list;
	}

	function findCurrent(key: string): CachedList | undefined {
		if (!subscription.current || clock() - checkedAt >= maxAgeMs) return undefined;
		const entry = lists.get(key);
		if (entry?.version !== head.version) return undefined;
		// A pass that changed nothing may have ended since it was read.
		entry.syncedAt = head.syncedAt;
		return entry;
	}

	function count<List extends CachedList>(list: List, source: 'memory' | 'database'): List {
		countResponse(list.representations === undefined ? 'stream' : source);
		return list;
	}

	return {
		find(companyId) {
			const entry = findCurrent(keyOf(companyId));
			if (entry === undefined) return undefined;
			// In the background. If it fails, the requests after `maxAgeMs` report the error.
			if (clock() - checkedAt >= checkIntervalMs && underWay.check === undefined) startCheck().catch(() => undefined);
			return count(entry, 'memory');
		},
		async read(companyId) {
			const key = keyOf(companyId);
			if (database.isFull) throw new DatabaseBusyError();
			return database.admit(async (turn) => {
				// No notification came, so the list is probably unchanged: to read the version costs less.
				const isAged = subscription.current && clock() - checkedAt >= maxAgeMs;
				if (isAged && lists.peek(key)?.version === head.version) {
					await shareQuery(
						() => underWay.check,
						() => startCheck(turn.askedAt),
						turn.until,
					);
				}
				const entry = findCurrent(key);
				if (entry !== undefined) return count(entry, 'memory');
				const list = await shareQuery(
					() => underWay.lists.get(key),
					() => startQuery(key, companyId, turn),
					turn.until,
				);
				return count(list, 'database');
			});
		},
		invalidate() {
			head = { ...head, version: '' };
			checkedAt = Number.NEGATIVE_INFINITY;
			underWay = { lists: new Map() };
		},
	};
}
