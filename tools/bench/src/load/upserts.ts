/** The chats over which upserts are spread evenly. */
export interface Chats {
	/** Every other one has a row when a measurement begins. */
	count: number;
	/** This many of them have an active subscription, so that nothing about them is saved. */
	subscriptions: number;
}

/** The number of distinct upserts in a run. */
const distinct = 20_000;

/** The fields that every upsert sends besides its chat. */
export const contact = { username: 'ivan.petrov', name: 'Ivan Petrov', birth_date: '1990-05-17' };

/** Bodies with chats drawn at random. */
export function upsertBodies({ count }: Chats): string[] {
	return Array.from({ length: distinct }, () =>
		JSON.stringify({ chat_id: 1 + Math.floor(Math.random() * count), ...contact }),
	);
}
