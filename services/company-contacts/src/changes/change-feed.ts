import { shareQuery } from '@contacts/common/database/admission.js';
import type { ChangeSubscription } from '@contacts/common/database/change-listener.js';
import type { Database } from '@contacts/common/database/database.js';
import { DatabaseBusyError } from '@contacts/common/database/errors.js';
import { Problem } from '@contacts/common/http/problems.js';
import { createRepresentations, type Representations } from '@contacts/common/http/representations.js';
import { counter } from '@contacts/common/observability/metrics.js';
import { LRUCache } from 'lru-cache';
import type { Registry } from 'prom-client';
import { type ChangesPage, readChanges } from './changes.sql.js';
import { type Cursor, decodeCursor, encodeCursor, invalidCursor, lastId } from './feed-cursor.js';
import { changesAfter, includes, merge, type RecentChanges } from './recent-changes.js';

export interface ChangeFeed {
	/** Returns a current response from memory, without a promise; undefined if there is none. */
	find(cursor: string | undefined, limit: number): Representations | undefined;
	/**
	 * Returns the changes after a cursor. Without a cursor it returns all contacts, from the first one on.
	 *
	 * @throws Problem `invalid_query`, `cursor_expired`; DatabaseError, DatabaseBusyError; it never returns only some of the changes
	 */
	read(cursor: string | undefined, limit: number): Promise<Representations>;
	/** Call it when a contact has changed, or may have. */
	invalidate(): void;
}

interface ChangeFeedOptions {
	database: Database;
	/** While the subscription is not current, every request queries the database. */
	subscription: Pick<ChangeSubscription, 'current'>;
	registry: Registry;
	/** Monotonic milliseconds. */
	clock: () => number;
}

/** Without a notification the feed counts as current for this long. It bounds the effect of a lost notification. */
const maxAgeMs = 2000;

/** Maximum size of the responses in memory. */
const maxResponseBytes = 16_000_000;

/** Maximum number of responses in memory, whatever their size. */
const maxResponses = 10_000;

/** What an entry takes in memory besides its response, rounded up. */
const entryBytes = 800;

/**
 * Keeps the newest changes in memory. A change costs one query, however many clients poll. Without changes there is one query
 * in `maxAgeMs` at most, which finds no row after the known version. Only a client with an older cursor causes another.
 */
export function createChangeFeed({ database, subscription, registry, clock }: ChangeFeedOptions): ChangeFeed {
	let recent: RecentChanges | undefined;
	/** When the query that produced `recent` started. */
	let askedAt = Number.NEGATIVE_INFINITY;
	let asking: Promise<RecentChanges> | undefined;
	/**
	 * Queries are numbered. A query that started later may finish earlier, and its result wins. One that started before an
	 * announced change may lack it, so its result never counts as current.
	 */
	let [lastAsked, lastApplied, lastInvalidated] = [0, 0, 0];
	/** By limit and cursor. Each change replaces them. */
	let responses = noResponses();

	const count = counter(
		registry,
		'changes_responses_total',
		'Responses with changes that were made, by their source: memory or the database.',
		'source',
		['memory', 'database'],
	);

	const isCurrent = () => subscription.current && clock() - askedAt < maxAgeMs;

	async function ask(requestedAt: number): Promise<RecentChanges> {
		const [began, turn] = [clock(), ++lastAsked];
		const page = await readChanges(database, { version: recent?.version ?? lastId, id: lastId, began: 0 }, requestedAt);
		if (recent !== undefined && turn < lastApplied) return recent;
		lastApplied = turn;
		if (page.epoch !== recent?.epoch || page.version !== recent.version || page.pruned !== recent.pruned)
			responses = noResponses();
		recent = merge(recent, page);
		if (turn > lastInvalidated) askedAt = began;
		return recent;
	}

	const deadlineOf = (requestedAt: number) => requestedAt + database.deadlineMs;

	/** Concurrent callers share one query, and count as one caller of the database: so any number of clients may poll at once. */
	function refresh(requestedAt: number): Promise<RecentChanges> {
		const start = () => {
			const mine = ask(requestedAt).finally(() => {
				if (asking === mine) asking = undefined;
			});
			asking = mine;
			return mine;
		};
		return shareQuery(() => asking, start, deadlineOf(requestedAt));
	}

	async function currentFor(cursor: Cursor | undefined, requestedAt: number): Promise<RecentChanges> {
		let current = isCurrent() && recent !== undefined ? recent : await refresh(requestedAt);
		// Another process may have seen a change before this one. The first query may have started before that change, so there
		// are two.
		for (let tries = 0; tries < 2 && cursor !== undefined; tries++) {
			if (cursor.epoch === current.epoch && !isAhead(cursor, current)) break;
			current = await refresh(requestedAt);
		}
		return current;
	}

	async function respond(
		cursor: Cursor | undefined,
		limit: number,
		current: RecentChanges,
		requestedAt: number,
	): Promise<Representations> {
		if (cursor !== undefined && includes(current, cursor)) {
			count('memory');
			return prepare({ ...current, changes: changesAfter(current, cursor) }, limit, cursor);
		}
		if (database.isFull) throw new DatabaseBusyError();
		count('database');
		const page = await readChanges(database, cursor ?? { version: 0, id: 0, began: null }, requestedAt);
		if (cursor !== undefined) check(cursor, page);
		return prepare(page, limit, cursor);
	}

	return {
		find: (text, limit) => (isCurrent() ? responses.made.get(keyOf(text, limit)) : undefined),
		async read(text, limit) {
			const requestedAt = performance.now();
			const cursor = text === undefined ? undefined : decodeCursor(text);
			if (text !== undefined && cursor === undefined) throw invalidCursor();
			const current = await currentFor(cursor, requestedAt);
			if (cursor !== undefined) check(cursor, current);
			const { made, pending } = responses;
			const key = keyOf(text, limit);
			const known = made.get(key);
			if (known !== undefined) return known;
			const start = async () => {
				const response = respond(cursor, limit, current, requestedAt).finally(() => pending.delete(key));
				pending.set(key, response);
				made.set(key, await response);
				return response;
			};
			return shareQuery(() => pending.get(key), start, deadlineOf(requestedAt));
		},
		invalidate() {
			askedAt = Number.NEGATIVE_INFINITY;
			lastInvalidated = lastAsked;
			// Later requests must not receive what was read before.
			asking = undefined;
			responses = noResponses();
		},
	};
}

/** An empty text is no cursor, and differs from none. */
const keyOf = (cursor: string | undefined, limit: number) => `${limit}${cursor === undefined ? '' : ` ${cursor}`}`;

const noResponses = () => ({
	made: new LRUCache<string, Representations>({
		max: maxResponses,
		maxSize: maxResponseBytes,
		sizeCalculation: ({ size }) => size + entryBytes,
	}),
	pending: new Map<string, Promise<Representations>>(),
});

/** Whether a cursor contains versions that this table does not have. */
function isAhead({ version, began, head }: Cursor, page: Pick<ChangesPage, 'version'>): boolean {
	return Math.max(version, began, head) > page.version;
}

/** @throws Problem when changes after the cursor may be missing */
function check(cursor: Cursor, page: Omit<ChangesPage, 'changes'>): void {
	if (cursor.epoch !== page.epoch) throw new Problem('cursor_expired');
	if (isAhead(cursor, page)) {
		// A promoted standby has lost these versions, so the cursor has expired. A standby will still receive them: a reader at
		// the end of its pages has nothing to read here yet, and a reader between two pages retries.
		if (!page.standby) throw new Problem('cursor_expired');
		if (cursor.id !== lastId) throw new Problem('overloaded');
		return;
	}
	// Tombstones of a reader's own version may be missing too, while it has not read that version to its end.
	const finished = cursor.id === lastId ? cursor.version : cursor.version - 1;
	if (Math.max(finished, cursor.began) < page.pruned) throw new Problem('cursor_expired');
}

function prepare({ epoch, version, changes }: ChangesPage, limit: number, cursor: Cursor | undefined): Representations {
	const sent = changes.slice(0, limit);
	const last = sent.at(-1);
	const hasMore = last !== undefined && changes.length > limit;
	const head = Math.max(version, cursor?.head ?? 0);
	const next: Cursor = hasMore
		? { epoch, version: last.version, id: last.id, began: cursor?.began ?? version, head }
		: { epoch, version: head, id: lastId, began: 0, head };
	const elements = sent.map(({ json }) => json).join(',');
	return createRepresentations(
		Buffer.from(`{"changes":[${elements}],"cursor":"${encodeCursor(next)}","has_more":${hasMore}}`),
	);
}
