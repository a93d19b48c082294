import { ContactsError } from './errors.js';
import type { components } from './generated/company-contacts.js';

type Body = components['schemas']['CompanyContactChanges'];

/** A contact as it is now, or the IDs of one that was deleted. */
export type ContactChange = Readonly<Body['changes'][number]>;

export interface ChangesPage {
	/** In the order of the changes, each contact at most once. */
	changes: readonly ContactChange[];
	/** Where the next page goes on: store it together with the changes. */
	cursor: string;
	hasMore: boolean;
}

export interface ChangesOptions {
	/** Where to go on; without it the pages have every contact. */
	cursor?: string | undefined;
	/** How many changes a page has at most, 1 to 1000 (1000). */
	limit?: number;
	signal?: AbortSignal;
}

/** Where a copy is kept: a table, a file, a map. */
export interface CopyStore {
	/** The cursor that was stored with the last page; undefined where there is no copy yet. */
	readCursor(): Promise<string | undefined> | string | undefined;
	/**
	 * Applies the changes in their order, by `contact.id`, and stores the cursor: both or nothing, as in one transaction.
	 *
	 * @param page with `reset`: remove everything that is in the copy first
	 */
	apply(page: ChangesPage & { reset: boolean }): Promise<void> | void;
}

/** All pages from a cursor on, until there are no more. */
export async function* followChanges(
	readPage: (cursor: string | undefined) => Promise<Body>,
	from: string | undefined,
): AsyncGenerator<ChangesPage, void, undefined> {
	for (let cursor = from, hasMore = true; hasMore; ) {
		const body = await readPage(cursor);
		({ cursor, has_more: hasMore } = body);
		yield { changes: body.changes, cursor, hasMore };
	}
}

/** @returns how many changes were applied */
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
