import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import { type DatabaseState, readConfirmed, type StatePoll } from '@contacts/common/database/state-poll.js';
import type { ContactsState } from '@contacts/common/database/state-poll.sql.js';
import { createRepresentations, type Representations } from '@contacts/common/http/representations.js';
import { counter, gauge } from '@contacts/common/observability/metrics.js';
import { LRUCache } from 'lru-cache';
import type { Registry } from 'prom-client';
import { type ListHead, readCompanyContacts } from './company-contacts.sql.js';
import { SharedQueries } from './shared-queries.js';

/** A list as it was when its query started, or later. */
export interface CachedList extends ListHead {
	/** See `DatabaseState`. */
	generation: number;
	/** Undefined if the list is too large for memory. */
	representations: Representations | undefined;
}

export interface ListCache {
	/** Returns a list that is in memory and current, without waiting. */
	find(companyId: string | undefined): CachedList | undefined;
	/**
	 * Returns such a list, or reads it from the table.
	 *
	 * @param deadline that of the request. Default: `Database.deadlineMs` from now
	 * @throws DatabaseError, DatabaseBusyError: it never returns an old list as a current one
	 */
	read(companyId: string | undefined, deadline?: Deadline): Promise<CachedList>;
}

interface ListCacheOptions {
	database: Database;
	/** It watches the contacts. */
	poll: StatePoll;
	registry: Registry;
	/** Maximum size of all lists together, in bytes. */
	maxBytes: number;
	/** Maximum size of one list, in bytes. */
	maxListBytes: number;
}

/** What an entry takes in memory besides its list, rounded up. */
const entryBytes = 800;

/** Maximum number of lists, whatever their size. */
const maxLists = 50_000;

const emptyBody = Buffer.from('{"count":0,"data":[]}');

/** Shared by all companies without contacts. */
const emptyList = createRepresentations(emptyBody);

/**
 * Keeps lists as bytes. One version of the table, which the poll confirms, covers all lists. Only a list that is new or may
 * have changed is read, and concurrent requests for it share one query. See docs/decisions/list-cache.md.
 */
export function createListCache(options: ListCacheOptions): ListCache {
	const { database, poll, registry, maxBytes, maxListBytes } = options;
	const lists = new LRUCache<string, CachedList>({
		max: maxLists,
		maxSize: maxBytes,
		sizeCalculation: ({ representations }) =>
			entryBytes + (representations === undefined || representations === emptyList ? 0 : representations.size),
	});
	const queries = new SharedQueries<CachedList>();
	const countResponse = counter(
		registry,
		'list_responses_total',
		'Lists, by their source: memory, the database, or a stream because they were too large.',
		'source',
		['memory', 'database', 'stream'],
	);
	gauge(registry, 'list_cache_bytes', 'Bytes of the lists in memory.', () => lists.calculatedSize);
	gauge(
		registry,
		'crm_last_success_timestamp_seconds',
		'When the last sync run that found the mirror equal to the CRM began, as a Unix time; NaN when there was none.',
		() => (poll.state?.contacts?.syncedAt ?? Number.NaN) / 1000,
	);

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

	async function query(
		companyId: string | undefined,
		{ generation }: DatabaseState,
		deadline: Deadline,
	): Promise<CachedList> {
		const key = keyOf(companyId);
		const { body, ...head } = await readConfirmed(
			poll,
			(isOnNew) => readCompanyContacts(database, companyId, Math.min(maxListBytes, maxBytes), { deadline, isOnNew }),
			deadline,
		);
		const entry = { ...head, generation, representations: body && representationsOf(key, body) };
		const known = lists.peek(key);
		// A query that was sent later may have ended before.
		if (known?.generation !== generation || known.version <= head.version) lists.set(key, entry);
		return entry;
	}

	function findCurrent(companyId: string | undefined, { generation, contacts }: DatabaseState): CachedList | undefined {
		const entry = lists.get(keyOf(companyId));
		const { version, syncedAt } = contacts as ContactsState;
		if (entry?.generation !== generation || entry.version < version) return undefined;
		// A sync run that changed nothing may have ended since it was read.
		if (entry.version === version && syncedAt !== null) entry.syncedAt = Math.max(syncedAt, entry.syncedAt ?? 0);
		return entry;
	}

	function count(list: CachedList, source: 'memory' | 'database'): CachedList {
		countResponse(list.representations === undefined ? 'stream' : source);
		return list;
	}

	return {
		find(companyId) {
			const state = poll.confirmed;
			const entry = state && findCurrent(companyId, state);
			return entry && count(entry, 'memory');
		},
		read: (companyId, requestDeadline) =>
			database.admit(async (deadline) => {
				const state = await poll.confirm(deadline);
				const entry = findCurrent(companyId, state);
				if (entry !== undefined) return count(entry, 'memory');
				// A query that was sent in an earlier state may lack a change, so only requests of the same state share it.
				const key = `${state.generation} ${state.contacts?.version} ${keyOf(companyId)}`;
				return count(await queries.join(key, deadline, () => query(companyId, state, deadline)), 'database');
			}, requestDeadline),
	};
}

const keyOf = (companyId: string | undefined) => companyId ?? 'all';
