/** Chats that upserts are spread over evenly. Every other one has a row when a measurement begins. */
export const chats = 100_000;

/** What every upsert sends beside its chat. */
export const contact = { username: 'ivan.petrov', name: 'Ivan Petrov', birth_date: '1990-05-17' };

/** Bodies with chats drawn at random. */
export function upsertBodies(count: number): string[] {
	return Array.from({ length: count }, () =>
		JSON.stringify({ chat_id: 1 + Math.floor(Math.random() * chats), ...contact }),
	);
}
