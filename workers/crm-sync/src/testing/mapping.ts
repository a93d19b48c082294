import type { CrmContact, CustomField } from '../bitrix24/contact.js';
import { type MappingOptions, mapContact } from '../mapping.js';

/** A custom field with options, by their IDs. */
export const list = (code: string, options: Record<string, string>): CustomField => ({
	itemName: code.toLowerCase(),
	code,
	options: new Map(Object.entries(options)),
});
/** A custom field without options. */
export const plain: CustomField = { itemName: 'ufCrm_1', code: 'UF_CRM_1', options: undefined };
const contact = (changes: Partial<CrmContact>): CrmContact => ({
	id: 1,
	names: [],
	phones: [],
	companyIds: [],
	assignedById: null,
	trouble: null,
	reason: null,
	...changes,
});
/** Maps a contact. A test provides only the relevant fields. */
export const map = (
	changes: Partial<CrmContact>,
	options: Partial<MappingOptions> = {},
	fields: { trouble?: CustomField; reason?: CustomField } = {},
) =>
	mapContact(
		contact(changes),
		{ trouble: plain, reason: plain, ...fields },
		{ country: undefined, troubleOptions: new Set(), ...options },
	);
