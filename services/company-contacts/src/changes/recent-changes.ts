import { type Change, type ChangesPage, maxChanges } from './changes.sql.js';
import { type Cursor, lastId, type Position } from './cursor.js';

/** The newest changes, as far as they are known. */
export interface RecentChanges extends Omit<ChangesPage, 'changes'> {
	/** All changes behind this position are here. */
	behind: Position;
	changes: readonly Change[];
}

/** A poller who comes once an hour finds all that it lacks here, unless very much is changed. */
const maxKept = { changes: 10_000, characters: 8_000_000 };

/** @param page everything behind the version that was known when it was read */
export function merge(known: RecentChanges | undefined, { changes, ...head }: ChangesPage): RecentChanges {
	const goesOn = known !== undefined && head.epoch === known.epoch && head.version >= known.version;
	if (!goesOn || changes.length > maxChanges) {
		return { ...head, behind: { version: head.version, id: lastId }, changes: [] };
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
	return { ...head, behind: all[first - 1] ?? known.behind, changes: all.slice(first) };
}

/** Whether everything that this reader lacks is there. */
export function includes({ behind }: RecentChanges, { version, id, began }: Cursor): boolean {
	return version >= began && !isBefore({ version, id }, behind);
}

export function changesBehind({ changes }: RecentChanges, position: Position): Change[] {
	return changes.slice(changes.findLastIndex((change) => !isBefore(position, change)) + 1);
}

function isBefore(one: Position, other: Position): boolean {
	return one.version < other.version || (one.version === other.version && one.id < other.id);
}
