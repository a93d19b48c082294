import { ContactsError } from './errors.js';
import type { components } from './generated/company-contacts.js';
import { type ClientOptions, createSend } from './request.js';

type ListBody = components['schemas']['CompanyContactList'];
type ChangesBody = components['schemas']['CompanyContactChanges'];

/** A contact of a company. */
export type CompanyContact = Readonly<components['schemas']['CompanyContact']>;

/** The current state of a contact, or the IDs of a deleted one. */
export type ContactChange = Readonly<ChangesBody['changes'][number]>;

export interface ListOptions {
	/** Returns only the contacts that are linked to this company of the CRM. */
	companyId?: string | number | bigint;
	signal?: AbortSignal;
}

export interface CompanyContactList {
	/** Ordered by id. */
	contacts: readonly CompanyContact[];
	/** When a synchronisation last confirmed that the list equals the CRM; undefined before the first one. */
	syncedAt: Date | undefined;
}

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

export interface CompanyContactsClient {
	/**
	 * `company_contacts.list`: all contacts, or the contacts of one company. To keep all contacts up to date, use `keepCopy`.
	 *
	 * @throws ContactsError, ContactsConnectionError
	 */
	list(options?: ListOptions): Promise<CompanyContactList>;
	/**
	 * `company_contacts.changes`: the changes since a cursor, page by page.
	 *
	 * @throws ContactsError with the code `cursor_expired`: start again without a cursor; ContactsConnectionError
	 */
	changes(options?: ChangesOptions): AsyncIterableIterator<ChangesPage>;
	/**
	 * Brings a copy of all contacts up to date. It starts over when the cursor of the copy has expired, or is one of another project or
	 * service. Call it as often as you
	 * need fresh data, and again after an error or a restart: it continues from the stored cursor.
	 *
	 * @returns the number of applied changes
	 * @throws ContactsError, ContactsConnectionError, and any error of the store
	 */
	keepCopy(store: CopyStore, options?: { signal?: AbortSignal }): Promise<number>;
}

/** Creates a client of company-contacts, for integrations of partners. */
export function createCompanyContactsClient(options: ClientOptions): CompanyContactsClient {
	const send = createSend(options);

	async function* changes({
		cursor,
		limit,
		signal,
	}: ChangesOptions = {}): AsyncGenerator<ChangesPage, void, undefined> {
		for (let hasMore = true; hasMore; ) {
			const { body } = await send<ChangesBody>({
				method: 'GET',
				path: '/api/company_contacts.changes',
				query: { cursor, limit },
				signal,
				isBody: ({ changes, cursor, has_more }) =>
					Array.isArray(changes) && typeof cursor === 'string' && typeof has_more === 'boolean',
			});
			({ cursor, has_more: hasMore } = body);
			yield { changes: body.changes, cursor: body.cursor, hasMore };
		}
	}

	return {
		changes,
		async list({ companyId, signal } = {}) {
			const { body, headers } = await send<ListBody>({
				method: 'GET',
				path: '/api/company_contacts.list',
				query: { company_id: companyId },
				signal,
				isBody: ({ data }) => Array.isArray(data),
			});
			const syncedAt = headers.get('contacts-synced-at');
			return { contacts: body.data, syncedAt: syncedAt === null ? undefined : new Date(syncedAt) };
		},
		async keepCopy(store, { signal } = {}) {
			let applied = 0;
			async function applyFrom(cursor: string | undefined): Promise<void> {
				let reset = cursor === undefined;
				for await (const page of changes({ cursor, ...(signal && { signal }) })) {
					await store.apply({ ...page, reset });
					applied += page.changes.length;
					reset = false;
				}
			}
			const isOfCursor = ({ code, errors }: ContactsError) =>
				code === 'cursor_expired' || (code === 'invalid_query' && errors.some(({ field }) => field === 'cursor'));
			try {
				await applyFrom(await store.readCursor());
			} catch (error) {
				if (!(error instanceof ContactsError && isOfCursor(error))) throw error;
				await applyFrom(undefined);
			}
			return applied;
		},
	};
}
