import type { CompanyContact } from '../company-contact.js';

export type SandboxChange =
	| { deleted: false; contact: CompanyContact }
	| { deleted: true; contact: Pick<CompanyContact, 'id' | 'bitrix_id'> };

const bitrixIdOf = (id: number) => 900_000 + id;

/** The fields in the order of a response. Numbers and names are invented, and the phones are reserved for fiction. */
const saved = (id: number, rest: Partial<Omit<CompanyContact, 'id' | 'bitrix_id'>> = {}): SandboxChange => ({
	deleted: false,
	contact: {
		id,
		bitrix_id: bitrixIdOf(id),
		phone: null,
		company_ids: null,
		name: null,
		assigned_by_id: null,
		trouble_contact: null,
		perplexity_reason: null,
		...rest,
	},
});
const deleted = (id: number): SandboxChange => ({ deleted: true, contact: { id, bitrix_id: bitrixIdOf(id) } });

/** The contacts of a new copy: one of every kind that a client must handle. */
export const firstContacts: readonly SandboxChange[] = [
	saved(1, { phone: '+12025550101', company_ids: '1', name: 'Sandbox Alice', assigned_by_id: 5 }),
	saved(2, { phone: '+12025550102', company_ids: '7,1', name: 'Sandbox Boris', assigned_by_id: 5 }),
	saved(3, { phone: '+12025550103', company_ids: '11', name: 'Sandbox Chen', assigned_by_id: 6 }),
	// Only the IDs.
	saved(4),
	saved(5, {
		phone: '+12025550105',
		company_ids: '1,11,21',
		name: 'Sandbox "Em" O’Neill, Jr.',
		assigned_by_id: 7,
		trouble_contact: 'true',
		perplexity_reason: 'Asks for a call back,\nnever answers',
	}),
	// A reason without trouble, and no company.
	saved(6, { phone: '+12025550106', name: 'Песочница Фёдор', perplexity_reason: 'Speaks Russian alone' }),
	saved(7, { company_ids: '21', name: 'サンドボックス 🙂', assigned_by_id: 8 }),
	saved(8, { phone: '+12025550108', company_ids: '7', trouble_contact: 'true' }),
];

/** The later changes, of each contact once: a copy receives them as changes. */
export const laterChanges: readonly SandboxChange[] = [
	saved(2, { phone: '+12025550122', company_ids: '7,1', name: 'Sandbox Boris', assigned_by_id: 5 }),
	deleted(3),
	saved(8, { phone: '+12025550108', company_ids: '7' }),
	// Added and deleted meanwhile: a copy that has never had it receives the deletion too.
	deleted(10),
	saved(9, { phone: '+12025550109', company_ids: '7,11', name: 'Sandbox Greta', assigned_by_id: 6 }),
];
