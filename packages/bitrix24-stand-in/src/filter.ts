import { makeTest, splitKey } from './comparison.js';
import type { StandInContact } from './contact.js';
import { RestError } from './errors.js';
import type { Lookup } from './field-lookup.js';
import { isMap, type Params, toInteger } from './php-values.js';
import type { Portal } from './portal.js';

/** Which contacts a list gives. */
export interface Filter {
	matches(contact: StandInContact): boolean;
	/** No contact with a lower id can match: where to begin in the index. */
	lowestId: number;
	/** Whether it names a category. */
	byCategory: boolean;
}

/** How a family of methods reads its filter. */
export interface FilterRules {
	lookup: Lookup;
	/** [DOC] crm.item.list nests conditions and has a `logic`; crm.contact.list doesn't. */
	nested: boolean;
	/** What becomes of a condition on an unknown field. */
	unknown(name: string): void;
}

type Condition = (contact: StandInContact) => boolean;

/**
 * Reads the filter of a list.
 *
 * @throws RestError INVALID_ARG_VALUE, as the rules and the switches say
 */
export function compileFilter(value: unknown, rules: FilterRules, portal: Portal): Filter {
	const given = isMap(value) || Array.isArray(value) ? (value as Params) : {};
	const filter: Filter = { matches: () => true, lowestId: 0, byCategory: false };
	filter.matches = group(given, rules, portal, filter);
	return filter;
}

function group(given: Params, rules: FilterRules, portal: Portal, top?: Filter): Condition {
	const conditions: Condition[] = [];
	for (const [key, wanted] of Object.entries(given)) {
		if (rules.nested && key.toLowerCase() === 'logic') continue;
		if (rules.nested && /^\d+$/.test(key)) {
			if (isMap(wanted) || Array.isArray(wanted)) conditions.push(group(wanted as Params, rules, portal));
			continue;
		}
		const condition = single(key, wanted, rules, portal, top);
		if (condition !== undefined) conditions.push(condition);
	}
	const logic = Object.entries(given).find(([key]) => key.toLowerCase() === 'logic')?.[1];
	if (rules.nested && String(logic).toUpperCase() === 'OR' && conditions.length > 0) {
		if (top !== undefined) top.lowestId = 0;
		return (contact) => conditions.some((matches) => matches(contact));
	}
	return (contact) => conditions.every((matches) => matches(contact));
}

function single(key: string, wanted: unknown, rules: FilterRules, portal: Portal, top?: Filter): Condition | undefined {
	const { operator, name } = splitKey(key);
	const field = rules.lookup(name);
	if (field === undefined) {
		rules.unknown(name);
		return undefined;
	}
	const isCategory = field.name === 'categoryId';
	if (isCategory && top !== undefined) top.byCategory = true;
	// [DOC] No category is the general one.
	const operand = isCategory && wanted === null ? 0 : wanted;
	const test = makeTest(operator, operand, field.kind, portal.utcOffset);
	if (test === undefined) {
		// [FIELD] Either it is refused, or the response begins at the start of the table.
		if (portal.switches.emptyFilterValue === 'ignored') return undefined;
		throw invalid(`filter: field '${name}' has invalid value`);
	}
	if (field.name === 'id' && top !== undefined) {
		if (operator === '>') top.lowestId = Math.max(top.lowestId, toInteger(wanted) + 1);
		if (operator === '>=') top.lowestId = Math.max(top.lowestId, toInteger(wanted));
	}
	return (contact) => {
		const value = field.value(contact);
		if (Array.isArray(value)) return value.length === 0 ? test(null) : value.some((one) => test(one));
		return test(value as string | number | null);
	};
}

/** [DOC] What crm.item.list says of a filter or an order that it can't use. */
export function invalid(what: string): RestError {
	return new RestError('INVALID_ARG_VALUE', `Invalid ${what}`, 400);
}
