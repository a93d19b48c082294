import type { ChangeSubscription } from '@contacts/common/database/change-listener.js';
import type { Database } from '@contacts/common/database/database.js';
import { Problem } from '@contacts/common/http/problems.js';
import { LRUCache } from 'lru-cache';
import { Counter, type Registry } from 'prom-client';
import { createRepresentations, type Representations } from '../representations.js';
import { type ChangesPage, readChanges } from './changes.sql.js';
import { type Cursor, decodeCursor, encodeCursor, lastId } from './cursor.js';
import { changesBehind, includes, merge, type RecentChanges } from './recent-changes.js';

export interface ChangeFeed {
	/** What is in memory, where that is current: without a promise. */
	find(cursor: string | undefined, limit: number): Representations | undefined;
	/**
	 * The changes behind a cursor, or without one all contacts from the first one on.
	 *
	 * @throws Problem `invalid_query`, `cursor_expired`; DatabaseError, DatabaseBusyError: never some changes as if they were all
	 */
	read(cursor: string | undefined, limit: number): Promise<Representations>;
	/** A contact has changed, or may have. */
	invalidate(): void;
}

export interface ChangeFeedOptions {
	database: Database;
	/** While it is not current, every request asks the database. */
	subscription: Pick<ChangeSubscription, 'current'>;
	registry: Registry;
	/** Milliseconds that never go back. */
	clock: () => number;
}

/** Milliseconds without a notification for which the feed counts as current: what a lost one could do is bounded by it. */
const maxAgeMs = 2000;

/** Bytes of the responses in memory. */
const maxResponseBytes = 16_000_000;

/** What an entry costs beside its bytes. */
const entryBytes = 500;

/**
 * Keeps the newest changes in memory. However many clients poll, a change costs one query, and none while nothing changes;
 * only a client who comes from further back is answered from the table.
 */
export function createChangeFeed({ database, subscription, registry, clock }: ChangeFeedOptions): ChangeFeed {
	let recent: RecentChanges | undefined;
	/** When the query began that `recent` was made of. */
	let askedAt = Number.NEGATIVE_INFINITY;
	let asking: Promise<RecentChanges> | undefined;
	/** Queries are numbered: one that began later may be faster, and counts. */
	let [lastAsked, lastApplied] = [0, 0];
	/** By limit and cursor. Others after each change. */
	let responses = noResponses();

	const made = new Counter({
		name: 'changes_responses_total',
		help: 'Responses with changes that were made, by whether the changes came from memory or from the table.',
		labelNames: ['from'],
		registers: [registry],
	});
	for (const from of ['memory', 'table']) made.inc({ from }, 0);

	const isCurrent = () => subscription.current && clock() - askedAt < maxAgeMs;

	async function ask(): Promise<RecentChanges> {
		const [began, turn] = [clock(), ++lastAsked];
		const page = await readChanges(database, { version: recent?.version ?? lastId, id: lastId, began: 0 });
		if (recent !== undefined && turn < lastApplied) return recent;
		lastApplied = turn;
		if (page.epoch !== recent?.epoch || page.version !== recent.version || page.pruned !== recent.pruned)
			responses = noResponses();
		recent = merge(recent, page);
		askedAt = began;
		return recent;
	}

	/** One query, however many ask. */
	function refresh(): Promise<RecentChanges> {
		const mine = asking ?? ask();
		asking = mine;
		return mine.finally(() => {
			if (asking === mine) asking = undefined;
		});
	}

	async function currentFor(cursor: Cursor | undefined): Promise<RecentChanges> {
		let current = isCurrent() && recent !== undefined ? recent : await database.admit(refresh);
		// Another process may know of a change before this one does. The first of these queries may have begun before that change.
		for (let tries = 0; tries < 2 && cursor !== undefined; tries++) {
			if (cursor.epoch === current.epoch && !isAhead(cursor, current)) break;
			current = await database.admit(refresh);
		}
		return current;
	}

	async function respond(cursor: Cursor | undefined, limit: number, current: RecentChanges): Promise<Representations> {
		if (cursor !== undefined && includes(current, cursor)) {
			made.inc({ from: 'memory' });
			return prepare({ ...current, changes: changesBehind(current, cursor) }, limit, cursor);
		}
		made.inc({ from: 'table' });
		const page = await readChanges(database, cursor ?? { version: 0, id: 0, began: null });
		if (cursor !== undefined) check(cursor, page);
		return prepare(page, limit, cursor);
	}

	return {
		find: (text, limit) => (isCurrent() ? responses.made.get(keyOf(text, limit)) : undefined),
		async read(text, limit) {
			const cursor = text === undefined ? undefined : readCursor(text);
			const current = await currentFor(cursor);
			if (cursor !== undefined) check(cursor, current);
			const { made, pending } = responses;
			const key = keyOf(text, limit);
			const known = made.get(key) ?? pending.get(key);
			if (known !== undefined) return known;
			const response = respond(cursor, limit, current).finally(() => pending.delete(key));
			pending.set(key, response);
			made.set(key, await response);
			return response;
		},
		invalidate() {
			askedAt = Number.NEGATIVE_INFINITY;
			// Who asks from now on must not get what was read before.
			asking = undefined;
			responses = noResponses();
		},
	};
}

const keyOf = (cursor: string | undefined, limit: number) => `${limit} ${cursor ?? ''}`;

const noResponses = () => ({
	made: new LRUCache<string, Representations>({
		maxSize: maxResponseBytes,
		sizeCalculation: ({ size }) => size + entryBytes,
	}),
	pending: new Map<string, Promise<Representations>>(),
});

/** @throws Problem for a text that is no cursor */
function readCursor(text: string): Cursor {
	const cursor = decodeCursor(text);
	if (cursor !== undefined) return cursor;
	const errors = [{ field: 'cursor', message: 'must be the cursor of an earlier response' }];
	throw new Problem('invalid_query', { errors });
}

/** Whether a cursor tells of versions that this table does not have. */
function isAhead({ version, began, head }: Cursor, page: Pick<ChangesPage, 'version'>): boolean {
	return Math.max(version, began, head) > page.version;
}

/** @throws Problem when it is not sure that all changes behind the cursor are known */
function check(cursor: Cursor, page: Omit<ChangesPage, 'changes'>): void {
	if (cursor.epoch !== page.epoch) throw new Problem('cursor_expired');
	if (isAhead(cursor, page)) {
		// A server that was a standby has lost them. One that is a standby still will have them: who knows more already has
		// nothing to learn here, and who is in the midst of it tries again.
		if (!page.standby) throw new Problem('cursor_expired');
		if (cursor.id !== lastId) throw new Problem('overloaded');
	} else if (Math.max(cursor.version, cursor.began) < page.pruned) throw new Problem('cursor_expired');
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
