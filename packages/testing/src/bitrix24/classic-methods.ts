import { classicRow, fullClassic, readClassicSelect } from './classic-rows.js';
import type { StandInContact } from './contact.js';
import { crmError, RestError } from './errors.js';
import { classicLookup } from './field-lookup.js';
import { compileFilter } from './filter.js';
import { listPage, readOrder } from './list.js';
import type { Method } from './methods.js';
import { type Params, toInteger } from './php-values.js';
import { isReadable, type Portal } from './portal.js';

/** crm.contact.list. [DOC] Deprecated, alive; rows are the result itself. */
export const contactList: Method = async (given, portal) => {
	const params = lowerKeys(given);
	const { switches } = portal;
	const lookup = classicLookup(portal);
	const filter = compileFilter(
		params.filter,
		{
			lookup,
			unknown: (name) => {
				if (switches.classicUnknownFilter === 'refused') {
					throw new RestError('ERROR_CORE', `Unknown field '${name}'`, 400);
				}
			},
		},
		portal,
	);
	const { matches, byCategory } = filter;
	if (!byCategory && switches.classicCategories === 'general') {
		filter.matches = (contact) => (contact.categoryId ?? 0) === 0 && matches(contact);
	}
	const { rows, ...counts } = await listPage(portal, {
		method: 'crm.contact.list',
		params,
		filter,
		order: readOrder(params.order, lookup, false, switches),
		wrapsAround: switches.classicPastEnd === 'first-page',
		twoQueries: switches.classicTwoQueries,
	});
	const select = readClassicSelect(params.select);
	return { result: rows.map((row) => classicRow(row, select, portal)), ...counts };
};

/** crm.contact.get. [DOC] Its errors have no code. */
export const contactGet: Method = (given, portal) => {
	const id = toInteger(lowerKeys(given).id);
	if (id <= 0) throw new RestError('', 'ID is not defined or invalid.', 400);
	const contact = portal.contacts.get(id);
	if (contact === undefined) throw crmError('', 'classicNotFound', portal.switches);
	if (!isReadable(contact)) throw crmError('', 'classicAccessDenied', portal.switches);
	return { result: fullClassic(contact, portal) };
};

/** crm.contact.company.items.get. [DOC] An id that is none is refused with status 200. */
export const contactCompanies: Method = (given, portal) => {
	const id = toInteger(lowerKeys(given).id);
	if (id <= 0) throw new RestError('', 'The parameter ownerEntityID is invalid or not defined.', 200);
	const contact = portal.contacts.get(id);
	const denied = () => new RestError('ACCESS_DENIED', 'Access denied!', 400);
	if (contact === undefined) {
		if (portal.switches.companiesOfMissing === 'access-denied') throw denied();
		return { result: [] };
	}
	if (!isReadable(contact)) throw denied();
	return { result: companyLinks(contact, portal) };
};

/** [DOC] `FILTER` and `filter`, `ID` and `id` are the same to these methods. */
function lowerKeys(params: Params): Params {
	return Object.fromEntries(Object.entries(params).map(([key, value]) => [key.toLowerCase(), value]));
}

/** The links of a contact to its companies, in their order. */
function companyLinks(contact: StandInContact, portal: Portal): Params[] {
	const allPrimary = portal.switches.twoPrimaryCompanies;
	return (contact.companyIds ?? []).map((id, index) => ({
		// [DOC] Numbers here, unlike in crm.contact.*.
		COMPANY_ID: id,
		SORT: allPrimary ? 10 : 100 + index * 10,
		ROLE_ID: 0,
		// [REC] More than one may be primary.
		IS_PRIMARY: index === 0 || allPrimary ? 'Y' : 'N',
	}));
}
