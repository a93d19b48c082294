import type { paths } from './generated/personal-contacts.js';
import { type ClientOptions, createSend } from './request.js';

type Upsert = paths['/api/personal_contacts']['post'];

/** The user of a personal chat. An absent field keeps its stored value; null clears it. */
export type PersonalContact = Upsert['requestBody']['content']['application/json'];

type Saved = Upsert['responses'][200]['content']['application/json'];

/** `skipped`: the chat has an active direct subscription to the bot, so nothing was written. */
export type Outcome = Saved['ok'];

/** Whether a chat has a direct subscription to the bot, and since when. Default: now. */
export type DirectSubscription =
	paths['/api/direct_subscriptions']['post']['requestBody']['content']['application/json'];

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
	const send = createSend(options);
	const post = async (path: string, body: object, signal: AbortSignal | undefined, outcomes: Outcome[]) => {
		const isBody = ({ ok }: Partial<Saved>) => ok !== undefined && outcomes.includes(ok);
		const { body: saved } = await send<Saved>({ method: 'POST', path, body, signal, isBody });
		return saved.ok;
	};
	return {
		upsert: (contact, { signal } = {}) => post('/api/personal_contacts', contact, signal, ['saved', 'skipped']),
		async setDirectSubscription(subscription, { signal } = {}) {
			await post('/api/direct_subscriptions', subscription, signal, ['saved']);
		},
	};
}
