import type { MultiField, StandInContact, UserField } from './contact.js';

/** The custom fields that the sample contacts use, by what they mean. */
export const sampleFieldNames = {
	troubleContact: 'UF_CRM_1700000000001',
	perplexityReason: 'UF_CRM_1700000000002',
} as const;

/** The same as the portal's custom fields. */
export const sampleFields: UserField[] = [
	{ name: sampleFieldNames.troubleContact, type: 'boolean' },
	{ name: sampleFieldNames.perplexityReason, type: 'string' },
];

type Name = [name: string | null, secondName: string | null, lastName: string | null];

/** People who don't exist, in several scripts and as people really fill a card in. */
const names: Name[] = [
	['Alice', null, 'Carter'],
	['Борис', 'Иванович', 'Орлов'],
	['伟', null, '陈'],
	['Zoë', 'Anne-Marie', "O'Neill"],
	['ليلى', null, 'حداد'],
	['Γιώργος', null, 'Παπαδόπουλος'],
	['Фаина', null, 'Зайцева'],
	['Jürgen', null, 'Groß'],
	['ნინო', null, 'ბერიძე'],
	['さくら', null, '田中'],
	['  Olena ', '', 'Шевчук'],
	['Ana María', null, 'Núñez de la Peña'],
	['Ю', null, null],
	[null, null, 'Contact #2759'],
	['', '', ''],
	['Emil "Em"', null, 'Nowak; jr.'],
];

/** %d is replaced by two digits. Of ranges kept free for fiction where a country has one; some are no numbers at all. */
const phones: [valueType: string, value: string][] = [
	['WORK', '+44 20 7946 01%d'],
	['MOBILE', '+120255501%d'],
	['HOME', '+49 (30) 23125-0%d'],
	['MOBILE', '8 (912) 345-67-%d'],
	['WORK', '+7 912 345 67 %d доб. 12'],
	['OTHER', '020 7946 01%d'],
	['MAILING', '+1 (202) 555-01%d, +1 (202) 555-0199'],
	['FAX', '+44 20 7946 02%d'],
	['PAGER', '112'],
	['WORK', 'ask the secretary'],
	['MOBILE', '12-%d'],
	['WORK_SHIFT', '+44 20 7946 03%d'],
];

const reasons = [
	'Asks for a call back, never answers',
	'Меняет условия после согласования',
	'  two  spaces, and a line\nbreak ',
	'<b>markup</b> & “quotes”',
];

/**
 * Made-up contacts with the ids 1, 2, 3 ...: the same ones for the same seed. Some have no name, no phone, no company; some
 * have twelve companies; a tenth is trouble.
 */
export function sampleContacts(count: number, seed = 1): StandInContact[] {
	const random = randomNumbers(seed);
	const pick = <Value>(list: readonly Value[]): Value => list[Math.floor(random() * list.length)] as Value;
	const firstDay = Date.UTC(2025, 0, 1);

	return Array.from({ length: count }, (_, index): StandInContact => {
		const id = index + 1;
		const [name, secondName, lastName] = pick(names);
		const createdTime = new Date(firstDay + id * 60_000);
		const companies = random() < 0.02 ? 12 : Math.floor(random() * 4);
		const phoneCount = Math.floor(random() * 4);
		const uf: Record<string, unknown> = {};
		if (random() < 0.5) uf[sampleFieldNames.troubleContact] = random() < 0.2;
		if (random() < 0.2) uf[sampleFieldNames.perplexityReason] = pick(reasons);
		return {
			id,
			name,
			secondName,
			lastName,
			assignedById: 1 + Math.floor(random() * 8),
			companyIds: distinct(companies, () => 1 + Math.floor(random() * 500)),
			phones: Array.from({ length: phoneCount }, (_phone, position): MultiField => {
				const [valueType, value] = pick(phones);
				const digits = String(Math.floor(random() * 100)).padStart(2, '0');
				return { id: id * 10 + position, valueType, value: value.replace('%d', digits) };
			}),
			emails: random() < 0.3 ? [{ id: id * 10 + 9, valueType: 'WORK', value: `person${id}@example.com` }] : [],
			categoryId: 0,
			createdTime,
			updatedTime: new Date(createdTime.getTime() + Math.floor(random() * 300) * 86_400_000),
			uf,
		};
	});
}

function distinct(count: number, next: () => number): number[] {
	const found = new Set<number>();
	while (found.size < count) found.add(next());
	return [...found];
}

/** Numbers from 0 to 1 that depend on the seed alone (mulberry32, public domain). */
function randomNumbers(seed: number): () => number {
	let state = seed >>> 0;
	return () => {
		state = (state + 0x6d2b79f5) >>> 0;
		let mixed = Math.imul(state ^ (state >>> 15), state | 1);
		mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
	};
}
