import { ContactsError } from './errors.js';
import type { components } from './generated/company-contacts.js';

export type ChangesBody = components['schemas']['CompanyContactChanges'];

/** The current state of a contact, or the IDs of a deleted one. */
export type ContactChange = Readonly<ChangesBody['changes'][number]>;

export interface ChangesPage {
	/** In the order of the changes. Each contact appears at most once. */
	changes: readonly ContactChange[];
	/** The position after this page. Store it together with the changes. */
	cursor: string;
	hasMore: boolean;
}

export interface ChangesOptions {
	/** The position to continue from. Without it, the pages contain every contact. */
	cursor?: string | undefined;
	/** Maximum number of changes in a page, 1 to 1000. Default: 1000. */
	limit?: number;
	signal?: AbortSignal;
}

/** The place where a copy is stored: a table, a file, a map. */
export interface CopyStore {
	/** Returns the cursor stored with the last page, or undefined while there is no copy. */
	readCursor(): Promise<string | undefined> | string | undefined;
	/**
	 * Applies the changes in their order, by `contact.id`, and stores the cursor. Do both in one transaction.
	 *
	 * @param page with `reset`, remove all contacts from the copy first
	 */
	apply(page: ChangesPage & { reset: boolean }): Promise<void> | void;
}

/** Reads all pages after a cursor until no more changes exist. */
export async function* followChanges(
	readPage: (cursor: string | undefined) => Promise<ChangesBody>,
	from: string | undefined,
): AsyncGenerator<ChangesPage, void, undefined> {
	for (let cursor = from, hasMore = true; hasMore; ) {
		const body = await readPage(cursor);
		({ cursor, has_more: hasMore } = body);
		yield { changes: body.changes, cursor, hasMore };
	}
}

/** @returns the number of applied changes */
export async function keepCopy(
	store: CopyStore,
	follow: (cursor: string | undefined) => AsyncIterable<ChangesPage>,
): Promise<number> {
	let applied = 0;
	async function applyFrom(cursor: string | undefined): Promise<void> {
		let reset = cursor === undefined;
		for await (const page of follow(cursor)) {
			await store.apply({ ...page, reset });
			applied += page.changes.length;
			reset = false;
		}
	}

	try {
		await applyFrom(await store.readCursor());
	} catch (error) {
		if (!(error instanceof ContactsError && error.code === 'cursor_expired')) throw error;
		await applyFrom(undefined);
	}
	return applied;
}
