import type { StandInContact, UserField } from './contact.js';
import type { Switches } from './switches.js';

/** The value that a contact has in a custom field; undefined when it was never set. */
export function storedValue(contact: StandInContact, field: UserField): unknown {
	return contact.uf?.[field.name] ?? undefined;
}

/** A custom field's value as crm.item.* returns it. */
export function itemValue(contact: StandInContact, field: UserField, switches: Switches): unknown {
	const stored = storedValue(contact, field);
	// [DOC] Multiple fields are arrays.
	if (field.multiple === true) return values(stored).map((value) => itemScalar(value, field, switches));
	if (stored === undefined) {
		if (field.type === 'boolean' && switches.unsetBooleanUf === 'no') return 'N';
		return switches.unsetUf === 'null' ? null : '';
	}
	return itemScalar(stored, field, switches);
}

/** A custom field's value as crm.contact.* returns it: text, but for what the switches say. */
export function classicValue(contact: StandInContact, field: UserField, switches: Switches): unknown {
	const stored = storedValue(contact, field);
	if (field.multiple === true) {
		const texts = values(stored).map((value) => classicScalar(value, field, switches));
		return texts.length === 0 && switches.classicEmptyMultiple === 'false' ? false : texts;
	}
	if (stored === undefined) {
		if (field.type === 'boolean' && switches.unsetBooleanUf === 'no') return classicScalar(false, field, switches);
		return switches.unsetUf === 'null' ? null : '';
	}
	return classicScalar(stored, field, switches);
}

/** What a filter compares: 1 and 0 for a boolean, [DOC] the filter of crm.item.list doesn't know Y and N. */
export function comparableValue(contact: StandInContact, field: UserField): unknown {
	const stored = storedValue(contact, field);
	const comparable = (value: unknown) => (field.type === 'boolean' ? (value === true ? 1 : 0) : value);
	if (field.multiple === true) return values(stored).map(comparable);
	return stored === undefined && field.type !== 'boolean' ? null : comparable(stored);
}

function values(stored: unknown): unknown[] {
	return Array.isArray(stored) ? stored : stored === undefined ? [] : [stored];
}

function itemScalar(value: unknown, field: UserField, switches: Switches): unknown {
	// [DOC] Y and N.
	if (field.type === 'boolean') return value === true ? 'Y' : 'N';
	if (field.type === 'enumeration') return switches.itemEnumerationIds === 'number' ? Number(value) : String(value);
	return String(value);
}

function classicScalar(value: unknown, field: UserField, switches: Switches): unknown {
	if (field.type !== 'boolean') return String(value);
	if (switches.classicBooleanUf === 'json') return value === true;
	return value === true ? '1' : '0';
}
