/** A contact in a file: every field is text. */
export type GeneratedContact = Record<
	'bitrix_id' | 'phone' | 'company_ids' | 'name' | 'assigned_by_id' | 'trouble_contact' | 'perplexity_reason',
	string | null
>;

const names = ['Anna "Ann" Lee', 'Иван Петров', 'O’Neill, Emil', "D'Arcy", '王小明', 'Zoë 🙂', 'one line'];

/** Valid contacts with all features of real files: large companies and small ones, quotes, missing fields. */
export function generateContacts(count: number): GeneratedContact[] {
	return Array.from({ length: count }, (_, index) => ({
		bitrix_id: String(1_000_000 + index * 3),
		phone: index % 10 === 9 ? null : `+7900${1_000_000 + index}`,
		company_ids: index % 5 === 4 ? null : Array.from({ length: 1 + (index % 12) }, (_, n) => 1 + index * n).join(),
		name: index % 20 === 19 ? null : `${names[index % names.length]} ${index}`,
		assigned_by_id: index % 11 === 10 ? null : String(1 + (index % 40)),
		trouble_contact: index % 17 === 16 ? 'true' : null,
		perplexity_reason: index % 17 === 16 ? 'Asks,\n"why?"' : null,
	}));
}

export function toCsv(contacts: readonly GeneratedContact[]): string {
	const quote = (value: string | null) => (value === null ? '' : `"${value.replaceAll('"', '""')}"`);
	const head = 'bitrix_id,phone,company_ids,name,assigned_by_id,trouble_contact,perplexity_reason';
	return [head, ...contacts.map((contact) => Object.values(contact).map(quote).join()), ''].join('\n');
}
