import type { StandInContact, UserField } from './contact.js';
import type { CrmState, ListPart } from './crm-state.js';
import { formatDate, isMap, type Params, parseDate, RestError } from './rest.js';

/** The methods that the synchroniser calls, for contacts: `crm.item.*` with the entity type 3. */

const contactType = 3;
const pageSize = 50;

/** What a method returns, without `time`. */
export interface MethodResult {
	result: unknown;
	total?: number;
	next?: number;
}

export const methods: Record<string, (params: Params, crm: CrmState) => MethodResult | Promise<MethodResult>> = {
	/** Rows are in `result.items`; `total` and `next` are beside `result`. */
	async 'crm.item.list'(params, crm) {
		requireContacts(params);
		const matches = readFilter(params.filter, crm);
		const isDescending = readOrder(params.order);
		// Without counting, a list ends at its page.
		const isCounted = Number(params.start ?? 0) >= 0;
		const first = isCounted ? Number(params.start ?? 0) : 0;
		const ids: number[] = [];
		const { '>id': after = 0 } = isMap(params.filter) ? params.filter : {};
		for (let id = Number(after) + 1; id <= crm.lastId; id++) {
			const contact = crm.contacts.get(id);
			if (contact === undefined || contact.readable === false || !matches(contact)) continue;
			if (ids.push(contact.id) === pageSize && !isCounted && !isDescending) break;
		}
		if (isDescending) ids.reverse();
		// The rows are read after the IDs were selected. What was deleted in between makes the page shorter.
		const page = ids.slice(first, first + pageSize);
		for (const hook of [...crm.pageHooks]) await hook(page);
		const names = Array.isArray(params.select) && !params.select.includes('*') ? params.select : undefined;
		const items = page.flatMap((id) => {
			const contact = crm.contacts.get(id);
			return contact === undefined ? [] : [listRow(contact, names, crm)];
		});
		if (!isCounted) return { result: { items }, total: 0 };
		const next = first + pageSize;
		return { result: { items }, total: ids.length, ...(next < ids.length ? { next } : {}) };
	},

	'crm.item.get'(params, crm) {
		requireContacts(params);
		const contact = crm.contacts.get(Number(params.id));
		if (contact === undefined) throw new RestError('NOT_FOUND', 'Element not found');
		if (contact.readable === false) throw new RestError('ACCESS_DENIED', 'Access denied');
		return { result: { item: itemRow(contact, crm) } };
	},

	'crm.category.list'(params, crm) {
		requireContacts(params);
		const first = Number(params.start ?? 0);
		const categories = crm.categories.slice(first, first + pageSize).map(({ id, isSystem = false }) => ({
			id,
			entityTypeId: contactType,
			isDefault: id === 0 ? 'Y' : 'N',
			isSystem: isSystem ? 'Y' : 'N',
			...(isSystem ? { code: 'CATALOG_CONTRACTOR_CONTACT' } : {}),
		}));
		return { result: { categories }, total: crm.categories.length };
	},

	'crm.item.fields'(params, crm) {
		requireContacts(params);
		const standard = ['id', 'name', 'secondName', 'lastName', 'assignedById', 'companyIds', 'fm'].map((name) => {
			const upperName = name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
			return [name, { type: 'string', title: name, isMultiple: false, upperName }] as const;
		});
		const custom = crm.fields.map((field) => {
			const { name: upperName, type, multiple: isMultiple = false } = field;
			const items = field.items?.map(({ id, value }) => ({ ID: String(id), VALUE: value }));
			return [itemName(field), { type, title: upperName, isMultiple, upperName, items }] as const;
		});
		return { result: { fields: Object.fromEntries([...standard, ...custom]) } };
	},
};

function requireContacts({ entityTypeId, useOriginalUfNames = 'N' }: Params): void {
	// Rows with other names than the requested ones would be worse than none.
	if (useOriginalUfNames !== 'N') throw new RestError('INVALID_ARG_VALUE', 'useOriginalUfNames is not supported');
	if (Number(entityTypeId) !== contactType) throw new RestError('NOT_FOUND', 'Smart process not found');
}

/** Reads the filter of a list. Only the conditions that the synchroniser sends are known. */
function readFilter(filter: unknown, { utcOffset }: CrmState): (contact: StandInContact) => boolean {
	const conditions = Object.entries(filter ?? {}).map(([key, value]) => {
		const invalid = (what: string) => new RestError('INVALID_ARG_VALUE', `Invalid filter: field '${key}' ${what}`);
		if (!['>id', '@categoryId', '>=updatedTime'].includes(key)) throw invalid('is not allowed in filter');
		const numbers = (Array.isArray(value) ? value : [value ?? Number.NaN]).map(Number);
		const since = parseDate(String(value), utcOffset);
		if (key === '>=updatedTime' ? Number.isNaN(since) : numbers.some(Number.isNaN)) throw invalid('has invalid value');
		if (key === '>id') return ({ id }: StandInContact) => id > (numbers[0] ?? 0);
		if (key === '@categoryId') return ({ categoryId = 0 }: StandInContact) => numbers.includes(categoryId);
		return ({ updatedTime }: StandInContact) => Math.floor(updatedTime.getTime() / 1000) * 1000 >= since;
	});
	return (contact) => conditions.every((matches) => matches(contact));
}

/** Reads the order of a list: only that by ID is known. @returns whether it is descending */
function readOrder(order: unknown): boolean {
	const { id: direction = 'ASC', ...others } = isMap(order) ? order : {};
	for (const field of Object.keys(others))
		throw new RestError('INVALID_ARG_VALUE', `Invalid order: field '${field}' is not allowed in order`);
	if (direction !== 'ASC' && direction !== 'DESC') {
		const text = `Invalid order: allowed sort directions are ASC, DESC. But got '${direction}' for field 'id'`;
		throw new RestError('INVALID_ARG_VALUE', text);
	}
	return direction === 'DESC';
}

/** A row of crm.item.list. `fm` comes only with all fields. */
function listRow(contact: StandInContact, names: unknown[] | undefined, crm: CrmState): Params {
	const row = itemRow(contact, crm);
	if (names !== undefined)
		return Object.fromEntries(Object.entries(row).filter(([name]) => name !== 'fm' && names.includes(name)));
	const { companyIds, fm } = crm.lists;
	for (const [name, part] of Object.entries({ companyIds, fm })) {
		const value = row[name];
		const rest = Array.isArray(value) ? partOf(part, value, contact.id) : value;
		if (rest === undefined) delete row[name];
		else row[name] = rest;
	}
	return row;
}

function partOf(part: ListPart, value: unknown[], id: number): unknown[] | undefined {
	if (part === 'absent') return undefined;
	if (part === 'empty') return [];
	if (part === 'first') return value.slice(0, 1);
	return part === 'all' || id % 3 === 0 ? value : partOf(id % 3 === 1 ? 'absent' : 'empty', value, id);
}

/** A contact as crm.item.get returns it: numbers are numbers, yes and no are Y and N. */
function itemRow(contact: StandInContact, { fields, utcOffset }: CrmState): Params {
	const { id, assignedById = 0, categoryId = 0, companyIds = [], phones = [], emails = [] } = contact;
	const values = (type: string, list: typeof phones) => list.map((value) => ({ ...value, typeId: type }));
	return {
		id,
		entityTypeId: contactType,
		name: contact.name ?? null,
		secondName: contact.secondName ?? null,
		lastName: contact.lastName ?? null,
		assignedById,
		categoryId,
		companyId: companyIds[0] ?? null,
		companyIds,
		hasPhone: phones.length > 0 ? 'Y' : 'N',
		hasEmail: emails.length > 0 ? 'Y' : 'N',
		createdTime: formatDate(contact.createdTime.getTime(), utcOffset),
		updatedTime: formatDate(contact.updatedTime.getTime(), utcOffset),
		fm: [...values('PHONE', phones), ...values('EMAIL', emails)],
		...Object.fromEntries(fields.map((field) => [itemName(field), customValue(field, contact.uf?.[field.name])])),
		...contact.raw,
	};
}

/** UF_CRM_1700000000001 is ufCrm_1700000000001 in rows. */
function itemName({ name }: UserField): string {
	return name.replace('UF_CRM_', 'ufCrm_');
}

function customValue({ type, multiple }: UserField, stored: unknown): unknown {
	if (multiple) return Array.isArray(stored) ? stored : [];
	if (type === 'boolean') return stored === true ? 'Y' : 'N';
	return stored ?? '';
}
