import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import type { DatabaseState, StatePoll } from '@contacts/common/database/state-poll.js';
import { createRepresentations, type Representations } from '@contacts/common/http/representations.js';
import { counter, gauge } from '@contacts/common/observability/metrics.js';
import type { Registry } from 'prom-client';
import { type ListHead, readCompanyContacts } from './company-contacts.sql.js';
import { contactsOf, readConfirmed } from './contacts-state.sql.js';
import { type CachedResponse, ResponseCache } from './response-cache.js';

/** A list as it was when its query started, or later. */
interface CachedList extends ListHead, CachedResponse {}

export interface ListCache {
	/**
	 * Returns a list that is in memory and current, without waiting.
	 *
	 * @param state that was confirmed for the request
	 */
	find(companyId: string | undefined, state: DatabaseState): CachedList | undefined;
	/**
	 * Returns such a list, or reads it from the table.
	 *
	 * @throws DatabaseError, DatabaseBusyError: it never returns an old list as a current one
	 */
	read(companyId: string | undefined, state: DatabaseState, deadline: Deadline): Promise<CachedList>;
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

/** Maximum number of lists, whatever their size. */
const maxLists = 50_000;

const emptyBody = Buffer.from('{"count":0,"data":[]}');

/** Shared by all companies without contacts. */
const emptyList = createRepresentations(emptyBody);

/** Keeps lists in memory, if they are not too large for it. */
export function createListCache(options: ListCacheOptions): ListCache {
	const { database, poll, registry, maxBytes, maxListBytes } = options;
	const countResponse = counter(
		registry,
		'list_responses_total',
		'Lists, by their source: memory, the database, or a stream because they were too large.',
		'source',
		['memory', 'database', 'stream'],
	);
	const cache = new ResponseCache<CachedList>({
		maxEntries: maxLists,
		maxBytes,
		shared: emptyList,
		isCurrent: (list, { version }) => list.version >= version,
		onServed: ({ representations }, source) => countResponse(representations === undefined ? 'stream' : source),
	});
	gauge(registry, 'list_cache_bytes', 'Bytes of the lists in memory.', () => cache.bytes);
	gauge(
		registry,
		'crm_last_success_timestamp_seconds',
		'When the last sync run that found the mirror equal to the CRM began, as a Unix time; NaN when there was none.',
		() => ((poll.state && contactsOf(poll.state).syncedAt) ?? Number.NaN) / 1000,
	);

	function representationsOf(key: string, body: Buffer): Representations {
		if (body.equals(emptyBody)) return emptyList;
		const made = cache.represent(key, body);
		// The same list was read again. Reuse it: slow clients hold the bytes that they receive, and must not hold many copies.
		const known = cache.peek(key);
		return known?.digest === made.digest ? known : made;
	}

	async function query(companyId: string | undefined, generation: number, deadline: Deadline): Promise<CachedList> {
		const { body, ...head } = await readConfirmed(
			poll,
			(isOnNew) => readCompanyContacts(database, companyId, Math.min(maxListBytes, maxBytes), { deadline, isOnNew }),
			deadline,
		);
		return { ...head, generation, representations: body && representationsOf(keyOf(companyId), body) };
	}

	return {
		find: (companyId, state) => cache.find(keyOf(companyId), state),
		read: (companyId, state, deadline) =>
			database.admit(() =>
				cache.read(keyOf(companyId), state, deadline, () => query(companyId, state.generation, deadline)),
			),
	};
}

/** When the mirror was last found equal to the CRM with the contacts of this list, in milliseconds since the epoch. */
export function syncedAtOf({ generation, version, syncedAt }: CachedList, state: DatabaseState): number | null {
	const contacts = contactsOf(state);
	if (state.generation !== generation || contacts.version !== version) return syncedAt;
	// A sync run that changed nothing may have ended since it was read.
	return contacts.syncedAt === null ? syncedAt : Math.max(contacts.syncedAt, syncedAt ?? 0);
}

const keyOf = (companyId: string | undefined) => companyId ?? 'all';
