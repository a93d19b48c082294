import type { MultiField, StandInContact } from './contact.js';
import { contactFields, type FieldValue } from './contact-fields.js';
import { type Params, toList } from './php-values.js';
import type { Portal } from './portal.js';
import { formatDate } from './portal-dates.js';
import { classicValue } from './user-fields.js';

/** What a call of crm.contact.* selects of each row. */
interface ClassicSelect {
	/** Undefined: all standard fields. */
	names: Set<string> | undefined;
	userFields: 'all' | Set<string>;
	/** [DOC] There is no mask for PHONE and EMAIL: they have to be named. */
	multiFields: Set<string>;
}

/** [DOC] "*" is all standard fields, "UF_*" all custom ones, both together the default. */
export function readClassicSelect(select: unknown): ClassicSelect {
	const names = new Set(toList(select).map(String));
	const byDefault = names.size === 0;
	return {
		// [INF] ID comes along whatever is selected.
		names: byDefault || names.has('*') ? undefined : new Set([...names, 'ID']),
		userFields: byDefault || names.has('UF_*') ? 'all' : names,
		multiFields: names,
	};
}

/** A row of crm.contact.list. [DOC] [REC] Everything is text. */
export function classicRow(contact: StandInContact, select: ClassicSelect, portal: Portal): Params {
	const row: Params = {};
	for (const field of contactFields) {
		if (field.classic === '' || field.notInClassicRows === true) continue;
		if (select.names !== undefined && !select.names.has(field.classic)) continue;
		const value = field.value(contact);
		row[field.classic] =
			field.classic === 'COMPANY_ID' && value === null
				? portal.switches.noCompany === 'zero'
					? '0'
					: null
				: classicScalar(value, portal);
	}
	for (const field of portal.fields) {
		if (select.userFields !== 'all' && !select.userFields.has(field.name)) continue;
		row[field.name] = classicValue(contact, field, portal.switches);
	}
	if (select.multiFields.has('PHONE')) addMultiField(row, 'PHONE', contact.phones);
	if (select.multiFields.has('EMAIL')) addMultiField(row, 'EMAIL', contact.emails);
	return row;
}

/** A contact as crm.contact.get returns it: with the multifields. [DOC] */
export function fullClassic(contact: StandInContact, portal: Portal): Params {
	const multiFields = new Set(['PHONE', 'EMAIL']);
	return classicRow(contact, { names: undefined, userFields: 'all', multiFields }, portal);
}

function classicScalar(value: FieldValue, portal: Portal): unknown {
	if (value instanceof Date) return formatDate(value.getTime(), portal.utcOffset);
	if (typeof value === 'boolean') return value ? 'Y' : 'N';
	return value === null ? null : String(value);
}

/** [DOC] The key is absent when there is nothing under it. */
function addMultiField(row: Params, type: 'PHONE' | 'EMAIL', fields: MultiField[] | undefined): void {
	if (fields === undefined || fields.length === 0) return;
	row[type] = fields.map(({ id, valueType, value }) => ({
		ID: String(id),
		VALUE_TYPE: valueType,
		VALUE: value,
		TYPE_ID: type,
	}));
}
