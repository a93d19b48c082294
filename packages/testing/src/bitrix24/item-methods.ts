import { crmError, RestError } from './errors.js';
import { itemFields } from './field-descriptions.js';
import { itemLookup } from './field-lookup.js';
import { compileFilter, invalid } from './filter.js';
import { fullItem, listedItem, readSelect } from './item-rows.js';
import { listPage, readOrder } from './list.js';
import type { Method } from './methods.js';
import { isYes, type Params, toInteger } from './php-values.js';
import { isReadable, type Portal } from './portal.js';

const contactType = 3;

/** crm.item.list for contacts. [DOC] Rows in `result.items`, `total` and `next` beside `result`. */
export const itemList: Method = async (params, portal) => {
	requireContacts(params, portal);
	const select = readSelect(params, portal);
	const lookup = itemLookup(portal, select.originalNames);
	const filter = compileFilter(
		params.filter,
		{
			lookup,
			unknown: (name) => {
				// [DOC] The multifield is refused with another code.
				if (name === 'fm') throw new RestError('100', "Field 'fm' can't be filtered by", 400);
				throw invalid(`filter: field '${name}' is not allowed in filter`);
			},
		},
		portal,
	);
	const page = await listPage(portal, {
		method: 'crm.item.list',
		params,
		filter,
		order: readOrder(params.order, lookup, true, portal.switches),
		// [INF] Here a page beyond the end is empty.
		wrapsAround: false,
		twoQueries: true,
	});
	const { rows, ...counts } = page;
	return { result: { items: rows.map((row) => listedItem(row, select, portal)) }, ...counts };
};

/** crm.item.get for a contact. [DOC] NOT_FOUND and ACCESS_DENIED, both 400. */
export const itemGet: Method = (params, portal) => {
	requireContacts(params, portal);
	const contact = portal.contacts.get(toInteger(required(params, 'id')));
	if (contact === undefined) throw crmError('NOT_FOUND', 'elementNotFound', portal.switches);
	if (!isReadable(contact)) throw crmError('ACCESS_DENIED', 'accessDenied', portal.switches);
	return { result: { item: fullItem(contact, portal, isYes(params.useOriginalUfNames)) } };
};

/** crm.item.fields for contacts. [DOC] */
export const itemFieldsMethod: Method = (params, portal) => {
	requireContacts(params, portal);
	return { result: { fields: itemFields(portal, isYes(params.useOriginalUfNames)) } };
};

/** [DOC] An unknown type is NOT_FOUND; the stand-in knows contacts only. */
function requireContacts(params: Params, portal: Portal): void {
	if (toInteger(required(params, 'entityTypeId')) !== contactType) {
		throw crmError('NOT_FOUND', 'typeNotFound', portal.switches);
	}
}

/** [INF] A missing parameter is refused before the method runs. */
function required(params: Params, name: string): unknown {
	if (params[name] === undefined) throw new RestError('100', `Could not find value for parameter {${name}}`, 400);
	return params[name];
}
