import createClient from 'openapi-fetch';
import {
	type ChangesBody,
	type ChangesOptions,
	type ChangesPage,
	type CopyStore,
	followChanges,
	keepCopy,
} from './changes.js';
import { bodyOf, notJson } from './errors.js';
import type { components, paths } from './generated/company-contacts.js';
import { type ClientOptions, createTransport } from './transport.js';

/** A contact of a company. */
export type CompanyContact = Readonly<components['schemas']['CompanyContact']>;

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
	 * Brings a copy of all contacts up to date. It starts over when the cursor of the copy has expired. Call it as often as you
	 * need fresh data, and again after an error or a restart: it continues from the stored cursor.
	 *
	 * @returns the number of applied changes
	 * @throws ContactsError, ContactsConnectionError, and any error of the store
	 */
	keepCopy(store: CopyStore, options?: { signal?: AbortSignal }): Promise<number>;
}

/** Creates a client of company-contacts, for integrations of partners. */
export function createCompanyContactsClient(options: ClientOptions): CompanyContactsClient {
	const transport = createTransport(options);
	const client = createClient<paths>({ baseUrl: options.baseUrl, fetch: transport });

	function changes({ cursor: from, limit, signal }: ChangesOptions = {}) {
		return followChanges(async (cursor) => {
			const query = {
				...(cursor === undefined ? {} : { cursor }),
				...(limit === undefined ? {} : { limit }),
			};
			const result = await client
				.GET('/api/company_contacts.changes', { params: { query }, signal: signal ?? null })
				.catch(notJson);
			const isBody = ({ changes, cursor, has_more }: Partial<ChangesBody>) =>
				Array.isArray(changes) && typeof cursor === 'string' && typeof has_more === 'boolean';
			return bodyOf(result, isBody);
		}, from);
	}

	return {
		changes,
		keepCopy: (store, options) => keepCopy(store, (cursor) => changes({ ...options, cursor })),
		async list({ companyId, signal } = {}) {
			// In a URL an integer is its digits, so that a bigint and a text of digits work like a number.
			const query = companyId === undefined ? {} : { company_id: companyId as number };
			const result = await client
				.GET('/api/company_contacts.list', { params: { query }, signal: signal ?? null })
				.catch(notJson);
			const { data: contacts } = bodyOf(result, ({ data }) => Array.isArray(data));
			const syncedAt = result.response.headers.get('contacts-synced-at');
			return { contacts, syncedAt: syncedAt === null ? undefined : new Date(syncedAt) };
		},
	};
}
