import { makeTest, splitKey } from './comparison.js';
import type { StandInContact } from './contact.js';
import { RestError } from './errors.js';
import type { Lookup } from './field-lookup.js';
import { isMap, toInteger } from './php-values.js';
import type { Portal } from './portal.js';

/** Which contacts a list returns. */
export interface Filter {
	matches(contact: StandInContact): boolean;
	/** No contact with a lower id can match: where to begin in the index. */
	lowestId: number;
	/** Whether it names a category. */
	byCategory: boolean;
}

/** How a family of methods reads its filter. */
interface FilterRules {
	lookup: Lookup;
	/** What becomes of a condition on an unknown field. */
	unknown(name: string): void;
}

/**
 * Reads the filter of a list: all its conditions have to be true.
 *
 * @throws RestError INVALID_ARG_VALUE, as the rules and the switches say
 */
export function compileFilter(value: unknown, rules: FilterRules, portal: Portal): Filter {
	const conditions: ((contact: StandInContact) => boolean)[] = [];
	const filter: Filter = {
		matches: (contact) => conditions.every((matches) => matches(contact)),
		lowestId: 0,
		byCategory: false,
	};
	for (const [key, given] of Object.entries(isMap(value) ? value : {})) {
		const { operator, name } = splitKey(key);
		const field = rules.lookup(name);
		if (field === undefined) {
			rules.unknown(name);
			continue;
		}
		const isCategory = field.name === 'categoryId';
		if (isCategory) filter.byCategory = true;
		// [DOC] No category is the general one.
		const operand = isCategory && given === null ? 0 : given;
		const test = makeTest(operator, operand, field.kind, portal.utcOffset);
		if (test === undefined) {
			// [FIELD] Either it is refused, or the response begins at the start of the table.
			if (portal.switches.emptyFilterValue === 'ignored') continue;
			throw invalid(`filter: field '${name}' has invalid value`);
		}
		if (field.name === 'id') {
			if (operator === '>') filter.lowestId = Math.max(filter.lowestId, toInteger(given) + 1);
			if (operator === '>=') filter.lowestId = Math.max(filter.lowestId, toInteger(given));
		}
		conditions.push((contact) => {
			const stored = field.value(contact);
			if (Array.isArray(stored)) return stored.length === 0 ? test(null) : stored.some((one) => test(one));
			return test(stored as string | number | null);
		});
	}
	return filter;
}

/** [DOC] What crm.item.list says of a filter or an order that it can't use. */
export function invalid(what: string): RestError {
	return new RestError('INVALID_ARG_VALUE', `Invalid ${what}`, 400);
}
