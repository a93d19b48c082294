import createClient from 'openapi-fetch';
import { type ChangesOptions, type ChangesPage, type CopyStore, followChanges, keepCopy } from './changes.js';
import { ContactsError, notJson } from './errors.js';
import type { components, paths } from './generated/company-contacts.js';
import { RememberedLists } from './remembered-lists.js';
import { type ClientOptions, createTransport } from './transport.js';

/** A contact of a company. */
export type CompanyContact = Readonly<components['schemas']['CompanyContact']>;

export interface CompanyContactsOptions extends ClientOptions {
	/** Bytes of lists, as JSON, that are remembered to be compared by their ETag (33,554,432); 0: none. */
	memoryBytes?: number;
}

export interface ListOptions {
	/** Only the contacts that are linked to this company of the CRM. */
	companyId?: string | number | bigint;
	signal?: AbortSignal;
}

export interface CompanyContactList {
	/** Ordered by id. While the list is unchanged it is the very same array: don't change it. */
	contacts: readonly CompanyContact[];
	/** False when the service said that the list is still the one that this client got before. */
	changed: boolean;
	/** When the list last changed; undefined while it has always been empty. */
	modifiedAt: Date | undefined;
	/** When the list was last found equal to the CRM; undefined before the first synchronisation. */
	syncedAt: Date | undefined;
}

export interface CompanyContactsClient {
	/**
	 * `company_contacts.list`: all contacts, or exactly those of one company. Ask as often as you like: an unchanged list is
	 * not sent again.
	 *
	 * @throws ContactsError, ContactsConnectionError
	 */
	list(options?: ListOptions): Promise<CompanyContactList>;
	/**
	 * `company_contacts.changes`: what has changed since a cursor, page by page until there is no more.
	 *
	 * @throws ContactsError with the code `cursor_expired`: begin again without a cursor; ContactsConnectionError
	 */
	changes(options?: ChangesOptions): AsyncIterableIterator<ChangesPage>;
	/**
	 * Brings a copy of all contacts up to date, and begins it anew where its cursor has expired. Call it as often as the copy is
	 * to be fresh, and again after an error or a restart: it goes on from what the store has.
	 *
	 * @returns how many changes were applied
	 * @throws ContactsError, ContactsConnectionError, and what the store throws
	 */
	keepCopy(store: CopyStore, options?: { signal?: AbortSignal }): Promise<number>;
}

/** A client of company-contacts, for partners' integrations. */
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
			const { data, error, response } = await client
				.GET('/api/company_contacts.changes', { params: { query }, ...(signal === undefined ? {} : { signal }) })
				.catch(notJson);
			if (data === undefined) throw new ContactsError(response, error);
			return data;
		}, from);
	}

	return {
		changes,
		keepCopy: (store, options) => keepCopy(store, (cursor) => changes({ ...options, cursor })),
		async list({ companyId, signal } = {}) {
			const name = companyId === undefined ? 'all' : String(companyId);
			const known = lists.get(name);
			const { data, error, response } = await client
				.GET('/api/company_contacts.list', {
					params: {
						query: companyId === undefined ? {} : { company_id: name },
						header: known === undefined ? {} : { 'If-None-Match': known.entityTag },
					},
					...(signal === undefined ? {} : { signal }),
				})
				.catch(notJson);
			const [modifiedAt, syncedAt] = ['last-modified', 'contacts-synced-at'].map((header) => {
				const time = response.headers.get(header);
				return time === null ? undefined : new Date(time);
			});
			const times = { modifiedAt, syncedAt };
			if (response.status === 304 && known !== undefined) return { contacts: known.value, changed: false, ...times };
			if (data === undefined) throw new ContactsError(response, error);
			const entityTag = response.headers.get('etag');
			const bytes = Number(response.headers.get('content-length'));
			if (entityTag !== null) lists.set(name, { entityTag, value: data.data, bytes });
			return { contacts: data.data, changed: true, ...times };
		},
	};
}
