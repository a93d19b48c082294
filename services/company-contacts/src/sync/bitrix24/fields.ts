import { type CustomField, type CustomFields, isRow } from './contact.js';
import { Bitrix24Error } from './errors.js';
import type { RestClient } from './rest-client.js';
import { entityTypeId } from './singles.js';

export interface FieldCodes {
	/** `UF_CRM_…` */
	trouble: string | undefined;
	reason: string | undefined;
}

/** @throws Bitrix24Error `stop` where the portal lacks a field that is configured */
export async function readFields(client: RestClient, codes: FieldCodes): Promise<CustomFields> {
	if (codes.trouble === undefined && codes.reason === undefined) return { trouble: undefined, reason: undefined };
	const all = await client.call('crm.item.fields', { entityTypeId }, ({ result }) => {
		if (!isRow(result) || !isRow(result.fields)) throw new Bitrix24Error('retry', 'no_fields', 'crm.item.fields');
		return result.fields;
	});
	const find = (code: string | undefined): CustomField | undefined => {
		if (code === undefined) return undefined;
		const entry = Object.entries(all).find(([, field]) => isRow(field) && field.upperName === code);
		if (entry === undefined) throw new Bitrix24Error('stop', `no_field_${code}`.slice(0, 64), 'crm.item.fields');
		const [itemName, field] = entry as [string, Record<string, unknown>];
		const items = field.type === 'enumeration' && Array.isArray(field.items) ? field.items.filter(isRow) : undefined;
		return { itemName, code, options: items && new Map(items.map((item) => [String(item.ID), String(item.VALUE)])) };
	};
	return { trouble: find(codes.trouble), reason: find(codes.reason) };
}
