import createClient from 'openapi-fetch';
import { ContactsError, notJson } from './errors.js';
import type { paths } from './generated/personal-contacts.js';
import { type ClientOptions, createTransport } from './transport.js';

type Upsert = paths['/api/personal_contacts']['post'];

/** The user of a personal chat. What is absent keeps its stored value, null clears it. */
export type PersonalContact = Upsert['requestBody']['content']['application/json'];

/** `skipped`: the chat has an active direct subscription to the bot, and nothing was written. */
export type Outcome = Upsert['responses'][200]['content']['application/json']['ok'];

export interface PersonalContactsClient {
	/**
	 * `personal_contacts.upsert`: saves the user of a personal chat.
	 *
	 * @throws ContactsError, ContactsConnectionError
	 */
	upsert(contact: PersonalContact, options?: { signal?: AbortSignal }): Promise<Outcome>;
}

/** A client of personal-contacts, for the backend of the bot. */
export function createPersonalContactsClient(options: ClientOptions): PersonalContactsClient {
	const client = createClient<paths>({ baseUrl: options.baseUrl, fetch: createTransport(options) });
	return {
		async upsert(contact, { signal } = {}) {
			const { data, error, response } = await client
				.POST('/api/personal_contacts', {
					body: contact,
					...(signal === undefined ? {} : { signal }),
				})
				.catch(notJson);
			if (data === undefined) throw new ContactsError(response, error);
			return data.ok;
		},
	};
}
