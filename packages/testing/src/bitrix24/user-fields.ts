import type { StandInContact, UserField } from './contact.js';
import type { Switches } from './switches.js';

/**
 * The name of a contact's custom field in crm.item.*. [DOC] Underscores stay between numbers and go elsewhere; a name that
 * mixes letters and digits so that the way back would be lost stays as it is: UF_CRM_1747309879 is ufCrm_1747309879,
 * UF_CRM_3_1747309727 is ufCrm3_1747309727, UF_CRM_3_DIGIT is ufCrm3Digit, UF_CRM_3_DIGIT10 is ufCrm_3_DIGIT10.
 */
export function camelNameOf(field: UserField): string {
	const rest = field.name.replace(/^UF_CRM_/, '');
	const parts = rest.split('_');
	const ambiguous = parts.some(
		(part, index) => /[a-z]\d|\d[a-z]/i.test(part) || (/\d$/.test(part) && /[a-z]$/i.test(parts[index - 1] ?? '')),
	);
	if (ambiguous || parts.length === 1) return `ufCrm${/^\d/.test(rest) || ambiguous ? `_${rest}` : capitalised(rest)}`;
	return parts.reduce((name, part, index) => {
		if (/^\d/.test(part)) return `${name}${index === 0 ? '' : '_'}${part}`;
		return `${name}${capitalised(part)}`;
	}, 'ufCrm');
}

function capitalised(word: string): string {
	return word.charAt(0).toUpperCase() + word.slice(1).toLowerCase();
}

/** A custom field's value as crm.item.* returns it. */
export function itemValue(contact: StandInContact, field: UserField, switches: Switches): unknown {
	return rendered(contact, field, switches, (value) => {
		// [DOC] Y and N.
		if (field.type === 'boolean') return value === true ? 'Y' : 'N';
		if (field.type === 'enumeration') return switches.itemEnumerationIds === 'number' ? Number(value) : String(value);
		return String(value);
	});
}

/** A custom field's value as crm.contact.* returns it: text, but for what the switches say. */
export function classicValue(contact: StandInContact, field: UserField, switches: Switches): unknown {
	const value = rendered(contact, field, switches, (scalar) => {
		if (field.type !== 'boolean') return String(scalar);
		if (switches.classicBooleanUf === 'json') return scalar === true;
		return scalar === true ? '1' : '0';
	});
	return Array.isArray(value) && value.length === 0 && switches.classicEmptyMultiple === 'false' ? false : value;
}

function rendered(
	contact: StandInContact,
	field: UserField,
	switches: Switches,
	write: (scalar: unknown) => unknown,
): unknown {
	const stored = storedValue(contact, field);
	// [DOC] Multiple fields are arrays.
	if (field.multiple === true) return values(stored).map(write);
	if (stored !== undefined) return write(stored);
	if (field.type === 'boolean' && switches.unsetBooleanUf === 'no') return write(false);
	return switches.unsetUf === 'null' ? null : '';
}

/** What a filter compares: 1 and 0 for a boolean, [DOC] the filter of crm.item.list doesn't know Y and N. */
export function comparableValue(contact: StandInContact, field: UserField): unknown {
	const stored = storedValue(contact, field);
	const comparable = (value: unknown) => (field.type === 'boolean' ? (value === true ? 1 : 0) : value);
	if (field.multiple === true) return values(stored).map(comparable);
	return stored === undefined && field.type !== 'boolean' ? null : comparable(stored);
}

/** Undefined when it was never set. */
function storedValue(contact: StandInContact, field: UserField): unknown {
	return contact.uf?.[field.name] ?? undefined;
}

function values(stored: unknown): unknown[] {
	return Array.isArray(stored) ? stored : stored === undefined ? [] : [stored];
}
