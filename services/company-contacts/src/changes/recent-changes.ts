import { type Change, type ChangesPage, maxChanges } from './changes.sql.js';
import { type Cursor, lastId, type Position } from './feed-cursor.js';

/** The newest known changes. */
export interface RecentChanges extends Omit<ChangesPage, 'changes'> {
	/** All changes after this position are included. */
	after: Position;
	changes: readonly Change[];
}

/** Enough for a client that polls once an hour, unless very many contacts change. */
const maxKept = { changes: 10_000, characters: 8_000_000 };

/** @param page everything after the version that was known when the query started */
export function merge(known: RecentChanges | undefined, { changes, ...head }: ChangesPage): RecentChanges {
	const goesOn = known !== undefined && head.epoch === known.epoch && head.version >= known.version;
	if (!goesOn || changes.length > maxChanges) {
		return { ...head, after: { version: head.version, id: lastId }, changes: [] };
	}
	const added = changes.filter(({ version }) => version > known.version);
	if (added.length === 0) return { ...known, ...head };
	const again = new Set(added.map(({ id }) => id));
	const all = [...known.changes.filter(({ id }) => !again.has(id)), ...added];
	let first = all.length;
	for (let characters = 0; first > 0 && all.length - first < maxKept.changes; first--) {
		characters += all[first - 1]?.json.length ?? 0;
		if (characters > maxKept.characters) break;
	}
	return { ...head, after: all[first - 1] ?? known.after, changes: all.slice(first) };
}

/** Whether all changes that this reader is missing are included. */
export function includes({ after }: RecentChanges, { version, id, began }: Cursor): boolean {
	return version >= began && !isBefore({ version, id }, after);
}

export function changesAfter({ changes }: RecentChanges, position: Position): Change[] {
	return changes.slice(changes.findLastIndex((change) => !isBefore(position, change)) + 1);
}

function isBefore(one: Position, other: Position): boolean {
	return one.version < other.version || (one.version === other.version && one.id < other.id);
}
