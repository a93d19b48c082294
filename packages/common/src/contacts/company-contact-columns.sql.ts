/** A column of a company contact besides its IDs. Expressions are SQL over a row of `company_contacts`. */
interface Column {
	type: keyof Values;
	/** The value in JSON, as in the list. */
	json: string;
	/** Maximum number of bytes of the value in the list, if there is no small limit. */
	bytes?: string;
}

/** The TypeScript types of the columns, by SQL type. */
interface Values {
	text: string | null;
	bigint: number | null;
	/** Decimal digits, each at most 2^63 − 1. */
	'bigint[]': readonly (number | string)[] | null;
	boolean: boolean;
}

const anyText = (name: string) =>
	({
		type: 'text',
		json: `coalesce(to_json(${name})::text, 'null')`,
		bytes: `coalesce(octet_length(${name}), 0)`,
	}) as const;

/**
 * Every column that is mirrored, imported and listed, in the order of the list. The list, the changes, the
 * import, the mirror and the types are derived from it.
 */
export const contactColumns = {
	// E.164 contains nothing that JSON escapes.
	phone: { type: 'text', json: `coalesce('"' || phone || '"', 'null')` },
	company_ids: {
		type: 'bigint[]',
		json: `coalesce('"' || array_to_string(company_ids, ',') || '"', 'null')`,
		bytes: '20 * coalesce(cardinality(company_ids), 0)',
	},
	name: anyText('name'),
	assigned_by_id: { type: 'bigint', json: `coalesce(assigned_by_id::text, 'null')` },
	trouble_contact: { type: 'boolean', json: `case when trouble_contact then '"true"' else 'null' end` },
	perplexity_reason: anyText('perplexity_reason'),
} as const satisfies Record<string, Column>;

export type ContactColumn = keyof typeof contactColumns;

/** The maximum number of characters of a text, counted as the table's constraints count them: by code point. */
export const maxCharacters = { name: 1000, perplexity_reason: 10_000 } as const satisfies Partial<
	Record<ContactColumn, number>
>;

/** @returns the text up to this number of characters, never a part of one */
export function firstCharacters(text: string, max: number): string {
	if (text.length <= max) return text;
	// A character has at most two code units.
	return [...text.slice(0, 2 * max)].slice(0, max).join('');
}

export const contactColumnNames = Object.keys(contactColumns) as ContactColumn[];

const definitions: readonly Column[] = Object.values(contactColumns);

/** A row of company contacts as the CRM or a file provides it: without the ID of the service. */
export type ContactRow = { bitrix_id: number } & {
	[Name in ContactColumn]: Values[(typeof contactColumns)[Name]['type']];
};

/** A contact with only some of its columns. Those that are absent keep their stored values. */
export type PartialContactRow = Pick<ContactRow, 'bitrix_id'> & Partial<ContactRow>;

/** The columns with their types, as SQL. */
export const columnDefinitions = contactColumnNames.map((name) => `${name} ${contactColumns[name].type}`).join(', ');

/**
 * A contact in the response as SQL: exactly these fields, in this order. It uses `format`, which takes half the time of
 * `row_to_json`.
 */
export const contactJson = `format(
	'{"id":%s,"bitrix_id":%s,${contactColumnNames.map((name) => `"${name}":%s`).join()}}',
	id, bitrix_id, ${definitions.map(({ json }) => json).join(', ')})`;

/** The maximum number of bytes of a contact's unlimited columns in the list, as SQL. */
export const contactBytes = definitions.flatMap(({ bytes }) => bytes ?? []).join(' + ');
