import type { MultiField, StandInContact } from './contact.js';
import { contactFields, type FieldValue } from './contact-fields.js';
import { isYes, type Params, toList } from './php-values.js';
import type { Portal } from './portal.js';
import { formatDate } from './portal-dates.js';
import { camelNameOf, itemValue } from './user-fields.js';

/** What a call of crm.item.* selects of each row. */
interface ItemSelect {
	/** Undefined: everything. */
	names: string[] | undefined;
	/** Whether the multifields come along. */
	withFm: boolean;
	originalNames: boolean;
}

/**
 * Reads `select` and `useOriginalUfNames`. [DOC] `fm` can't be selected by name: it comes only where nothing is selected, or
 * "*" alone.
 */
export function readSelect(params: Params, portal: Portal): ItemSelect {
	const names = toList(params.select).map(String);
	const everything = names.length === 0 || names.includes('*');
	return {
		names: everything ? undefined : names,
		withFm: everything && (names.length <= 1 || portal.switches.fmBesideStar),
		originalNames: isYes(params.useOriginalUfNames),
	};
}

/** A contact as crm.item.get returns it. [DOC] */
export function fullItem(contact: StandInContact, portal: Portal, originalNames = false): Params {
	return itemRow(contact, { names: undefined, withFm: true, originalNames }, portal);
}

/** A row of crm.item.list: a map, or `[]` where nothing that was selected exists. [SRC] */
export function listedItem(contact: StandInContact, select: ItemSelect, portal: Portal): unknown {
	const { itemListCompanyIds, itemListFm } = portal.switches;
	const row = itemRow(contact, brokenNames(select, portal), portal);
	leaveOut(row, { companyIds: itemListCompanyIds, fm: itemListFm });
	return Object.keys(row).length === 0 ? [] : row;
}

/** [??] Lists inside of rows that some portals may leave out, empty or cut. */
function leaveOut(row: Params, fields: Record<string, 'filled' | 'absent' | 'empty' | 'primary'>): Params {
	for (const [name, position] of Object.entries(fields)) {
		const value = row[name];
		if (!Array.isArray(value)) continue;
		if (position === 'absent') delete row[name];
		if (position === 'empty') row[name] = [];
		if (position === 'primary') row[name] = value.slice(0, 1);
	}
	return row;
}

/** [FIELD] With useOriginalUfNames and a select, rows come without their fields. */
function brokenNames(select: ItemSelect, { switches }: Portal): ItemSelect {
	if (!select.originalNames || select.names === undefined) return select;
	const names = switches.originalUfNamesBug === 'empty-rows' ? [] : select.names.filter((name) => /^UF_/.test(name));
	return { ...select, names };
}

function itemRow(contact: StandInContact, select: ItemSelect, portal: Portal): Params {
	const selected = select.names === undefined ? undefined : new Set(select.names);
	const row: Params = {};
	for (const field of contactFields) {
		if (selected !== undefined && !selected.has(field.camel)) continue;
		if (portal.switches.itemHints === 'absent' && hints.has(field.camel)) continue;
		const value = field.value(contact);
		// [DOC] null or 0 for no company.
		row[field.camel] =
			field.camel === 'companyId' && value === null && portal.switches.noCompany === 'zero'
				? 0
				: itemScalar(value, portal);
	}
	for (const field of portal.fields) {
		const name = select.originalNames ? field.name : camelNameOf(field);
		if (selected === undefined || selected.has(name)) row[name] = itemValue(contact, field, portal.switches);
	}
	if (row.categoryId === 0) generalCategory(row, portal);
	if (select.withFm) {
		row.fm = [...multiFields(contact.phones, 'PHONE'), ...multiFields(contact.emails, 'EMAIL')];
		row.entityTypeId = 3;
	}
	return { ...row, ...contact.raw };
}

/** Fields that say whether there are companies and phones. */
const hints = new Set(['companyId', 'hasPhone', 'phone', 'phoneMobile', 'phoneWork', 'phoneMailing']);

function generalCategory(row: Params, { switches }: Portal): void {
	if (switches.itemGeneralCategory === 'string') row.categoryId = '0';
	if (switches.itemGeneralCategory === 'null') row.categoryId = null;
	if (switches.itemGeneralCategory === 'absent') delete row.categoryId;
}

function itemScalar(value: FieldValue, portal: Portal): unknown {
	if (value instanceof Date) return formatDate(value.getTime(), portal.utcOffset);
	// [DOC] Y and N.
	return typeof value === 'boolean' ? (value ? 'Y' : 'N') : value;
}

function multiFields(fields: MultiField[] | undefined, typeId: string): Params[] {
	return (fields ?? []).map(({ id, valueType, value }) => ({ id, valueType, value, typeId }));
}
