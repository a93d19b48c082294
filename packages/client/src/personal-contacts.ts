import createClient from 'openapi-fetch';
import { bodyOf, notJson } from './errors.js';
import type { paths } from './generated/personal-contacts.js';
import { type ClientOptions, createTransport } from './transport.js';

type Upsert = paths['/api/personal_contacts']['post'];

/** The user of a personal chat. An absent field keeps its stored value; null clears it. */
export type PersonalContact = Upsert['requestBody']['content']['application/json'];

/** `skipped`: the chat has an active direct subscription to the bot, so nothing was written. */
export type Outcome = Upsert['responses'][200]['content']['application/json']['ok'];

type SetSubscription = paths['/api/direct_subscriptions']['post'];

/** Whether a chat has a direct subscription to the bot, and since when. Default: now. */
export type DirectSubscription = SetSubscription['requestBody']['content']['application/json'];

export interface PersonalContactsClient {
	/**
	 * `personal_contacts.upsert`: saves the user of a personal chat.
	 *
	 * @throws ContactsError, ContactsConnectionError
	 */
	upsert(contact: PersonalContact, options?: { signal?: AbortSignal }): Promise<Outcome>;
	/**
	 * `direct_subscriptions.set`: reports that a chat subscribes to the bot directly, or leaves it. The last report counts, so
	 * await each report before you send the next one for the same chat.
	 *
	 * @throws ContactsError, ContactsConnectionError
	 */
	setDirectSubscription(subscription: DirectSubscription, options?: { signal?: AbortSignal }): Promise<void>;
}

/** Creates a client of personal-contacts, for the backend of the bot. */
export function createPersonalContactsClient(options: ClientOptions): PersonalContactsClient {
	const client = createClient<paths>({ baseUrl: options.baseUrl, fetch: createTransport(options) });
	return {
		async upsert(contact, { signal } = {}) {
			const result = await client
				.POST('/api/personal_contacts', { body: contact, signal: signal ?? null })
				.catch(notJson);
			return bodyOf(result, ({ ok }) => ok === 'saved' || ok === 'skipped').ok;
		},
		async setDirectSubscription(subscription, { signal } = {}) {
			const result = await client
				.POST('/api/direct_subscriptions', { body: subscription, signal: signal ?? null })
				.catch(notJson);
			bodyOf(result, ({ ok }) => ok === 'saved');
		},
	};
}
