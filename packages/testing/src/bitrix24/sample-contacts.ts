import type { StandInContact, UserField } from './contact.js';

/** The custom fields that the sample contacts use, by what they mean. */
export const sampleFieldNames = {
	troubleContact: 'UF_CRM_1700000000001',
	perplexityReason: 'UF_CRM_1700000000002',
} as const;

/** The same as the CRM's custom fields. */
export const sampleFields: UserField[] = [
	{ name: sampleFieldNames.troubleContact, type: 'boolean' },
	{ name: sampleFieldNames.perplexityReason, type: 'string' },
];

/** First, second and last names of people who don't exist, in several scripts and as people really fill a card in. */
const names: [string | null, string | null, string | null][] = [
	['Alice', null, 'Carter'],
	['Борис', 'Иванович', 'Орлов'],
	['伟', null, '陈'],
	['ليلى', null, 'حداد'],
	['  Olena ', '', 'Шевчук'],
	['Ana María', null, 'Núñez de la Peña'],
	[null, null, 'Contact #2759'],
];

/** Numbers of ranges that are kept free for fiction, where % is two digits. The last one is no number at all. */
const phones: [valueType: string, value: string][] = [
	['WORK', '+44 20 7946 01%'],
	['MOBILE', '+120255501%'],
	['HOME', '+49 (30) 23125-0%'],
	['MAILING', '+1 (202) 555-01%, +1 (202) 555-0199'],
	['WORK', 'ask the secretary'],
];

/** Made-up contacts with the IDs 1, 2, 3 …, always the same. Some have no name, no phone, no company. */
export function sampleContacts(count: number): StandInContact[] {
	const firstDay = Date.UTC(2025, 0, 1);
	return Array.from({ length: count }, (_, index): StandInContact => {
		const id = index + 1;
		const [name, secondName, lastName] = names[id % names.length] ?? [null, null, null];
		const [valueType, value] = phones[id % phones.length] ?? ['', ''];
		const createdTime = new Date(firstDay + id * 60_000);
		const phone = { id, valueType, value: value.replace('%', String(id % 100).padStart(2, '0')) };
		return {
			id,
			name,
			secondName,
			lastName,
			assignedById: 1 + (id % 8),
			companyIds: Array.from({ length: id % 4 }, (_company, n) => ((id * 31 + n * 17) % 500) + 1),
			phones: id % 4 === 0 ? [] : [phone],
			createdTime,
			updatedTime: createdTime,
			uf: {
				[sampleFieldNames.troubleContact]: id % 10 === 0,
				[sampleFieldNames.perplexityReason]: id % 10 === 0 ? 'Asks for a call back, never answers' : '',
			},
		};
	});
}
