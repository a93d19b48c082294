import { shareQuery } from '@contacts/common/database/admission.js';
import type { Database } from '@contacts/common/database/database.js';
import { type Deadline, startDeadline } from '@contacts/common/database/deadline.js';
import { type DatabaseState, readConfirmed, type StatePoll } from '@contacts/common/database/state-poll.js';
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
	 * @param startedAt when the request began, in milliseconds of `performance.now()`
	 * @throws Problem `invalid_query`, `cursor_expired`; DatabaseError, DatabaseBusyError; it never returns only some of the changes
	 */
	read(cursor: string | undefined, limit: number, startedAt?: number): Promise<Representations>;
}

interface ChangeFeedOptions {
	database: Database;
	/** It watches the contacts. */
	poll: StatePoll;
	registry: Registry;
}

/** The newest changes, and the generation of the state in which they were read. */
type KnownChanges = RecentChanges & Pick<DatabaseState, 'generation'>;

/** Maximum size of the responses in memory. */
const maxResponseBytes = 16_000_000;

/** Maximum number of responses in memory, whatever their size. */
const maxResponses = 10_000;

/** What an entry takes in memory besides its response, rounded up. */
const entryBytes = 800;

/**
 * Keeps the newest changes in memory. A change costs one query, however many clients poll, and no change costs none. Only a
 * client with an older cursor causes another.
 */
export function createChangeFeed({ database, poll, registry }: ChangeFeedOptions): ChangeFeed {
	let recent: KnownChanges | undefined;
	/** Queries under way, by what they read and the state that was confirmed when they were sent. */
	const recentUnderWay = new Map<string, Promise<KnownChanges>>();
	const underWay = new Map<string, Promise<Representations>>();
	/** By version, limit and cursor. */
	const responses = new LRUCache<string, Representations>({
		max: maxResponses,
		maxSize: maxResponseBytes,
		sizeCalculation: ({ size }) => size + entryBytes,
	});
	const count = counter(
		registry,
		'changes_responses_total',
		'Responses with changes that were made, by their source: memory or the database.',
		'source',
		['memory', 'database'],
	);

	const readPage = (position: Parameters<typeof readChanges>[1], { startedAt }: Deadline) =>
		database.admit(
			(deadline) => readConfirmed(poll, (isOnNew) => readChanges(database, position, { deadline, isOnNew }), deadline),
			startedAt,
		);

	/** The newest changes in memory, if they are those of this state or of a later one. */
	function findRecent(state: DatabaseState | undefined): KnownChanges | undefined {
		if (recent === undefined || recent.generation !== state?.generation || state.contacts === undefined)
			return undefined;
		const { version, pruned } = state.contacts;
		return recent.version >= version && recent.pruned >= pruned ? recent : undefined;
	}

	async function readRecent({ generation }: DatabaseState, deadline: Deadline): Promise<KnownChanges> {
		const known = recent?.generation === generation ? recent : undefined;
		const page = await readPage({ version: known?.version ?? lastId, id: lastId, began: 0 }, deadline);
		const read = { ...merge(known, page), generation };
		// A query that was sent later may have ended before.
		if (recent?.generation !== generation || recent.version <= read.version) recent = read;
		return read;
	}

	/** Concurrent callers share one query, and count as one caller of the database: so any number of clients may poll at once. */
	function recentOf(state: DatabaseState, deadline: Deadline): Promise<KnownChanges> | KnownChanges {
		const known = findRecent(state);
		if (known !== undefined) return known;
		const key = `${state.generation} ${state.contacts?.version} ${state.contacts?.pruned}`;
		return shareQuery(
			() => recentUnderWay.get(key),
			() => start(recentUnderWay, key, readRecent(state, deadline)),
			deadline,
		);
	}

	async function respond(
		cursor: Cursor | undefined,
		limit: number,
		current: RecentChanges,
		deadline: Deadline,
	): Promise<Representations> {
		if (cursor !== undefined && includes(current, cursor)) {
			count('memory');
			return prepare({ ...current, changes: changesAfter(current, cursor) }, limit, cursor);
		}
		count('database');
		const page = await readPage(cursor ?? { version: 0, id: 0, began: null }, deadline);
		if (cursor !== undefined) check(cursor, page);
		return prepare(page, limit, cursor);
	}

	return {
		find(text, limit) {
			const current = findRecent(poll.confirmed);
			return current && responses.get(keyOf(current, text, limit));
		},
		async read(text, limit, startedAt) {
			const cursor = text === undefined ? undefined : decodeCursor(text);
			if (text !== undefined && cursor === undefined) throw invalidCursor();
			const deadline = startDeadline(database.deadlineMs, startedAt);
			let current = await recentOf(await poll.confirm(deadline), deadline);
			// Another process may have seen a change before this one.
			if (cursor !== undefined && (cursor.epoch !== current.epoch || isAhead(cursor, current)))
				current = await recentOf(await poll.refresh(deadline), deadline);
			if (cursor !== undefined) check(cursor, current);
			const key = keyOf(current, text, limit);
			const known = responses.get(key);
			if (known !== undefined) return known;
			const begin = async () => {
				const response = await respond(cursor, limit, current, deadline);
				responses.set(key, response);
				return response;
			};
			return shareQuery(
				() => underWay.get(key),
				() => start(underWay, key, begin()),
				deadline,
			);
		},
	};
}

/** Keeps a query until it has ended, so that others can share it. */
function start<Result>(underWay: Map<string, Promise<Result>>, key: string, query: Promise<Result>): Promise<Result> {
	const shared = query.finally(() => {
		if (underWay.get(key) === shared) underWay.delete(key);
	});
	underWay.set(key, shared);
	return shared;
}

/** An empty text is no cursor, and differs from none. */
const keyOf = ({ generation, version, pruned }: KnownChanges, cursor: string | undefined, limit: number) =>
	`${generation} ${version} ${pruned} ${limit}${cursor === undefined ? '' : ` ${cursor}`}`;

/** Whether a cursor contains versions that this table does not have. */
function isAhead({ version, began, head }: Cursor, page: Pick<ChangesPage, 'version'>): boolean {
	return Math.max(version, began, head) > page.version;
}

/** @throws Problem when changes after the cursor may be missing */
function check(cursor: Cursor, page: Omit<ChangesPage, 'changes'>): void {
	// A promoted standby has lost the versions of a cursor that is ahead.
	if (cursor.epoch !== page.epoch || isAhead(cursor, page)) throw new Problem('cursor_expired');
	// Tombstones of a reader's own version may be missing too, while it has not read that version to its end.
	const finished = cursor.id === lastId ? cursor.version : cursor.version - 1;
	if (Math.max(finished, cursor.began) < page.pruned) throw new Problem('cursor_expired');
}

function prepare({ epoch, version, changes }: ChangesPage, limit: number, cursor: Cursor | undefined): Representations {
	const sent = changes.slice(0, limit);
	const last = sent.at(-1);
	const hasMore = last !== undefined && changes.length > limit;
	const next: Cursor = hasMore
		? { epoch, version: last.version, id: last.id, began: cursor?.began ?? version, head: version }
		: { epoch, version, id: lastId, began: 0, head: version };
	const elements = sent.map(({ json }) => json).join(',');
	return createRepresentations(
		Buffer.from(`{"changes":[${elements}],"cursor":"${encodeCursor(next)}","has_more":${hasMore}}`),
	);
}
