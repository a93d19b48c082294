/** A contact as the portal tells it, in one form whichever method it came by. Values of custom fields are as they came. */
export interface CrmContact {
	id: number;
	names: unknown[];
	phones: CrmPhone[];
	/** Undefined: the portal did not tell. */
	companyIds: unknown[] | undefined;
	assignedById: unknown;
	/** Of catalogue vendors it is not 0. */
	categoryId: number;
	trouble: unknown;
	reason: unknown;
}

export interface CrmPhone {
	id: number;
	/** MOBILE, WORK, HOME, FAX, PAGER or whatever a portal has defined. */
	kind: string;
	value: string;
}

/** A custom field of contacts. */
export interface CustomField {
	/** Its name in the rows of crm.item.list. */
	itemName: string;
	/** `UF_CRM_…`, which is also its name in the rows of crm.contact.list. */
	code: string;
	/** For a list: the label of each option by its ID. */
	options: Map<string, string> | undefined;
}

/** Which custom fields hold what; undefined where none is configured. */
export interface CustomFields {
	trouble: CustomField | undefined;
	reason: CustomField | undefined;
}

type Row = Record<string, unknown>;

/** @returns undefined where this is no contact: then the whole answer is not to be believed */
export function fromItem(row: unknown, fields: CustomFields): CrmContact | undefined {
	if (!isRow(row)) return undefined;
	const id = positiveInteger(row.id);
	if (id === undefined) return undefined;
	return {
		id,
		names: [row.name, row.secondName, row.lastName],
		phones: listOf(row.fm).flatMap((value) =>
			value.typeId === 'PHONE' ? toPhone(value.id, value.valueType, value.value) : [],
		),
		companyIds: Array.isArray(row.companyIds) ? row.companyIds : undefined,
		assignedById: row.assignedById,
		categoryId: Number(row.categoryId ?? 0),
		trouble: fields.trouble && row[fields.trouble.itemName],
		reason: fields.reason && row[fields.reason.itemName],
	};
}

/** A row of crm.contact.list, which tells only the primary company: its links are asked for apart. */
export function fromClassic(row: unknown, links: unknown[] | undefined, fields: CustomFields): CrmContact | undefined {
	if (!isRow(row)) return undefined;
	const id = positiveInteger(row.ID);
	if (id === undefined) return undefined;
	return {
		id,
		names: [row.NAME, row.SECOND_NAME, row.LAST_NAME],
		phones: listOf(row.PHONE).flatMap((value) => toPhone(value.ID, value.VALUE_TYPE, value.VALUE)),
		companyIds: links,
		assignedById: row.ASSIGNED_BY_ID,
		categoryId: Number(row.CATEGORY_ID ?? 0),
		trouble: fields.trouble && row[fields.trouble.code],
		reason: fields.reason && row[fields.reason.code],
	};
}

/** The linked companies of crm.contact.company.items.get, primary first, then in the CRM's order. */
export function linksOf(rows: unknown): unknown[] | undefined {
	if (!Array.isArray(rows)) return undefined;
	const rank = (row: Row) => (row.IS_PRIMARY === 'Y' ? 0 : 1);
	return listOf(rows)
		.sort((a, b) => rank(a) - rank(b) || Number(a.SORT) - Number(b.SORT) || Number(a.COMPANY_ID) - Number(b.COMPANY_ID))
		.map((row) => row.COMPANY_ID);
}

export function isRow(value: unknown): value is Row {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The portal writes IDs as numbers or as strings. */
export function positiveInteger(value: unknown): number | undefined {
	if (typeof value === 'string' && !/^\d{1,16}$/.test(value)) return undefined;
	const number = typeof value === 'number' || typeof value === 'string' ? Number(value) : Number.NaN;
	return Number.isSafeInteger(number) && number > 0 ? number : undefined;
}

function listOf(value: unknown): Row[] {
	return Array.isArray(value) ? value.filter(isRow) : [];
}

function toPhone(id: unknown, kind: unknown, value: unknown): CrmPhone[] {
	return typeof value === 'string' ? [{ id: Number(id), kind: String(kind ?? ''), value }] : [];
}
