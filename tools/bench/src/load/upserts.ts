/** What upserts are spread over evenly. */
export interface Chats {
	/** Every other one has a row when a measurement begins. */
	count: number;
	/** Of these have so many an active subscription: nothing is saved of them. */
	subscriptions: number;
}

/** Distinct upserts of a run. */
const distinct = 20_000;

/** What every upsert sends beside its chat. */
export const contact = { username: 'ivan.petrov', name: 'Ivan Petrov', birth_date: '1990-05-17' };

/** Bodies with chats drawn at random. */
export function upsertBodies({ count }: Chats): string[] {
	return Array.from({ length: distinct }, () =>
		JSON.stringify({ chat_id: 1 + Math.floor(Math.random() * count), ...contact }),
	);
}
