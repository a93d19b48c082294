import type { Database } from '@contacts/common/database/database.js';
import { type Deadline, remainingMs } from '@contacts/common/database/deadline.js';
import type { DatabaseState, StatePoll } from '@contacts/common/database/state-poll.js';
import { Problem } from '@contacts/common/http/problems.js';
import type { Representations } from '@contacts/common/http/representations.js';
import { counter } from '@contacts/common/observability/metrics.js';
import type { Registry } from 'prom-client';
import { type ContactsState, contactsOf, readConfirmed } from '../contacts-state.sql.js';
import { type CachedResponse, ResponseCache } from '../response-cache.js';
import { type ChangesPage, readChanges } from './changes.sql.js';
import { type Cursor, decodeCursor, encodeCursor, lastId } from './feed-cursor.js';

export interface ChangeFeed {
	/**
	 * Returns a current response from memory, without a promise; undefined if there is none.
	 *
	 * @param state that was confirmed for the request
	 */
	find(cursor: string | undefined, limit: number, state: DatabaseState): Representations | undefined;
	/**
	 * Returns the changes after a cursor. Without a cursor it returns all contacts, from the first one on.
	 *
	 * @throws Problem `invalid_query`, `cursor_expired`; DatabaseError, DatabaseBusyError; it never returns only some of the changes
	 */
	read(
		cursor: string | undefined,
		limit: number,
		confirmed: DatabaseState,
		deadline: Deadline,
	): Promise<Representations>;
}

interface ChangeFeedOptions {
	database: Database;
	/** It watches the contacts. */
	poll: StatePoll;
	registry: Registry;
}

interface CachedPage extends CachedResponse {
	representations: Representations;
}

/** Maximum size of the responses in memory. */
const maxResponseBytes = 16_000_000;

/** Maximum number of responses in memory, whatever their size. */
const maxResponses = 10_000;

/** Keeps responses in memory. A change costs one query for each cursor, however many clients poll with it, and no change costs none. */
export function createChangeFeed({ database, poll, registry }: ChangeFeedOptions): ChangeFeed {
	const countResponse = counter(
		registry,
		'changes_responses_total',
		'Responses with changes, by their source: memory or the database.',
		'source',
		['memory', 'database'],
	);
	/** By limit and cursor. */
	const cache = new ResponseCache<CachedPage>({
		maxEntries: maxResponses,
		maxBytes: maxResponseBytes,
		isCurrent: (page, { version }) => page.version === version,
		onServed: (_, source) => countResponse(source),
	});

	/** A query counts as one caller of the database: so any number of clients may poll at once. */
	async function readPage(cursor: Cursor | undefined, deadline: Deadline): Promise<ChangesPage> {
		const page = await database.admit(() =>
			readConfirmed(poll, (isOnNew) => readChanges(database, cursor, { deadline, isOnNew }), deadline),
		);
		if (cursor !== undefined) check(cursor, page);
		return page;
	}

	return {
		find: (text, limit, state) => cache.find(keyOf(text, limit), state)?.representations,
		async read(text, limit, confirmed, deadline) {
			const cursor = text === undefined ? undefined : decodeCursor(text);
			// Another process may have seen a change before this one.
			const isNewer = cursor !== undefined && isUnknown(cursor, contactsOf(confirmed));
			const state = isNewer ? await poll.refresh(remainingMs(deadline)) : confirmed;
			const { generation } = state;
			const contacts = contactsOf(state);
			const { version } = contacts;
			const key = keyOf(text, limit);
			const pageOf = (page: Page): CachedPage => ({
				generation,
				version,
				representations: cache.represent(key, bodyOf(page, limit, cursor)),
			});
			// Nothing is new: no query.
			if (text === encodeCursor(cursorAtEnd(contacts))) cache.keep(key, pageOf({ ...contacts, changes: [] }));
			const query = async () => pageOf(await readPage(cursor, deadline));
			return (await cache.read(key, state, deadline, query)).representations;
		},
	};
}

/** An empty text is no cursor, and differs from none. */
const keyOf = (cursor: string | undefined, limit: number) => (cursor === undefined ? `${limit}` : `${limit} ${cursor}`);

/** What a reader receives that has read everything. */
const cursorAtEnd = ({ epoch, version }: Pick<ContactsState, 'epoch' | 'version'>): Cursor => ({
	epoch,
	version,
	id: lastId,
	began: 0,
	head: version,
});

/** Whether a cursor is of another epoch, or contains versions that this table does not have. */
function isUnknown(
	{ epoch, version, began, head }: Cursor,
	contacts: Pick<ContactsState, 'epoch' | 'version'>,
): boolean {
	return epoch !== contacts.epoch || Math.max(version, began, head) > contacts.version;
}

/** @throws Problem when changes after the cursor may be missing */
function check(cursor: Cursor, page: ChangesPage): void {
	// A promoted standby has lost the versions of a cursor that is ahead.
	if (isUnknown(cursor, page)) throw new Problem('cursor_expired');
	// Tombstones of a reader's own version may be missing too, while it has not read that version to its end.
	const finished = cursor.id === lastId ? cursor.version : cursor.version - 1;
	if (Math.max(finished, cursor.began) < page.pruned) throw new Problem('cursor_expired');
}

type Page = Pick<ChangesPage, 'epoch' | 'version' | 'changes'>;

function bodyOf({ epoch, version, changes }: Page, limit: number, cursor: Cursor | undefined): Buffer {
	const sent = changes.slice(0, limit);
	const last = sent.at(-1);
	const hasMore = last !== undefined && changes.length > limit;
	const next: Cursor = hasMore
		? { epoch, version: last.version, id: last.id, began: cursor?.began ?? version, head: version }
		: cursorAtEnd({ epoch, version });
	const elements = sent.map(({ json }) => json).join(',');
	return Buffer.from(`{"changes":[${elements}],"cursor":"${encodeCursor(next)}","has_more":${hasMore}}`);
}
