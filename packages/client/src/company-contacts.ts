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
import { RememberedLists } from './remembered-lists.js';
import { type ClientOptions, createTransport } from './transport.js';

/** A contact of a company. */
export type CompanyContact = Readonly<components['schemas']['CompanyContact']>;

export interface CompanyContactsOptions extends ClientOptions {
	/** Maximum size of the remembered lists, in bytes of JSON. Default: 33,554,432; 0 remembers none. */
	memoryBytes?: number;
}

export interface ListOptions {
	/** Returns only the contacts that are linked to this company of the CRM. */
	companyId?: string | number | bigint;
	signal?: AbortSignal;
}

export interface CompanyContactList {
	/** Ordered by id. While the list is unchanged, every call returns the same array: do not modify it. */
	contacts: readonly CompanyContact[];
	/** False when the service reported that the list has not changed since this client last received it. */
	changed: boolean;
	/** When the list last changed; undefined if it has always been empty. */
	modifiedAt: Date | undefined;
	/** When a synchronisation last confirmed that the list equals the CRM; undefined before the first one. */
	syncedAt: Date | undefined;
}

export interface CompanyContactsClient {
	/**
	 * `company_contacts.list`: all contacts, or the contacts of one company. Frequent calls are cheap: the service does not
	 * send an unchanged list again.
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
export function createCompanyContactsClient(options: CompanyContactsOptions): CompanyContactsClient {
	const transport = createTransport(options);
	const client = createClient<paths>({ baseUrl: options.baseUrl, fetch: transport });
	const lists = new RememberedLists<readonly CompanyContact[]>(options.memoryBytes ?? 33_554_432);

	function changes({ cursor: from, limit, signal }: ChangesOptions = {}) {
		return followChanges(async (cursor) => {
			const query = {
				...(cursor === undefined ? {} : { cursor }),
				...(limit === undefined ? {} : { limit: String(limit) }),
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
			const name = companyId === undefined ? 'all' : String(companyId);
			const known = lists.get(name);
			const result = await client
				.GET('/api/company_contacts.list', {
					params: {
						query: companyId === undefined ? {} : { company_id: name },
						header: known === undefined ? {} : { 'If-None-Match': known.entityTag },
					},
					signal: signal ?? null,
				})
				.catch(notJson);
			const { response } = result;
			const [modifiedAt, syncedAt] = ['last-modified', 'contacts-synced-at'].map((header) => {
				const time = response.headers.get(header);
				return time === null ? undefined : new Date(time);
			});
			const times = { modifiedAt, syncedAt };
			if (response.status === 304 && known !== undefined) return { contacts: known.value, changed: false, ...times };
			const { data: contacts } = bodyOf(result, ({ data }) => Array.isArray(data));
			const entityTag = response.headers.get('etag');
			const bytes = Number(response.headers.get('content-length'));
			if (entityTag !== null) lists.set(name, { entityTag, value: contacts, bytes });
			return { contacts, changed: true, ...times };
		},
	};
}
