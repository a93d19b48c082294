/** A contact in a file: every field is text. */
export type GeneratedContact = Record<
	'bitrix_id' | 'phone' | 'company_ids' | 'name' | 'assigned_by_id' | 'trouble_contact' | 'perplexity_reason',
	string | null
>;

/** Numbers from 0 to 1, the same in every run (mulberry32). */
export function seededRandom(seed: number): () => number {
	let state = seed;
	return () => {
		state = (state + 0x6d2b79f5) | 0;
		let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
		mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
	};
}

const names = ['Anna "Ann" Lee', 'Иван Петров', 'O’Neill, Emil', "D'Arcy", '王小明', 'Zoë 🙂', 'line one\nline two'];

/** Valid contacts with all features of real files: a few large companies and many small ones, quotes, missing fields. */
export function generateContacts(count: number, seed: number): GeneratedContact[] {
	const random = seededRandom(seed);
	const below = (limit: number) => Math.floor(random() * limit);
	const maybe = (share: number, value: () => string) => (random() < share ? value() : null);
	return Array.from({ length: count }, (_, index) => ({
		bitrix_id: String(1_000_000 + index * 3),
		phone: maybe(0.9, () => `+7900${String(1_000_000 + below(8_999_999))}`),
		company_ids: maybe(0.8, () =>
			Array.from({ length: 1 + below(below(10) === 0 ? 12 : 2) }, () => String(1 + below(1 + below(5000)))).join(),
		),
		name: maybe(0.95, () => `${names[below(names.length)]} ${index}`),
		assigned_by_id: maybe(0.9, () => String(1 + below(40))),
		trouble_contact: maybe(0.05, () => 'true'),
		perplexity_reason: maybe(0.05, () => 'Asks, "why?"'),
	}));
}

export function toCsv(contacts: readonly GeneratedContact[]): string {
	const quote = (value: string | null) =>
		value !== null && /[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : (value ?? '');
	const head = 'bitrix_id,phone,company_ids,name,assigned_by_id,trouble_contact,perplexity_reason';
	return [head, ...contacts.map((contact) => Object.values(contact).map(quote).join()), ''].join('\n');
}
