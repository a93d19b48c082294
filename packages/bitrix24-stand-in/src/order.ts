import type { StandInContact } from './contact.js';
import type { Comparable, Lookup } from './field-lookup.js';
import { invalid } from './filter.js';
import { isMap } from './php-values.js';
import type { Switches } from './switches.js';

/** The order of a list. */
export interface Order {
	/** Set when it is the order of the index; then nothing needs sorting. */
	byId: 'ascending' | 'descending' | undefined;
	compare(one: StandInContact, other: StandInContact): number;
}

/**
 * Reads the order of a list.
 *
 * @param strict [DOC] crm.item.list refuses an unknown field or direction; [INF] crm.contact.list ignores it
 * @throws RestError INVALID_ARG_VALUE
 */
export function compileOrder(value: unknown, lookup: Lookup, strict: boolean, switches: Switches): Order {
	const keys: { field: Comparable; sign: number }[] = [];
	for (const [name, wanted] of Object.entries(isMap(value) ? value : {})) {
		const field = lookup(name);
		const direction = String(wanted).toUpperCase();
		if (field === undefined) {
			if (strict) throw invalid(`order: field '${name}' is not allowed in order`);
			continue;
		}
		if (strict && direction !== 'ASC' && direction !== 'DESC') {
			throw invalid(`order: allowed sort directions are ASC, DESC. But got '${String(wanted)}' for field '${name}'`);
		}
		keys.push({ field, sign: direction === 'DESC' ? -1 : 1 });
	}
	const first = keys[0];
	if (first === undefined) return { byId: switches.defaultOrder, compare: () => 0 };
	if (first.field.name === 'id') return { byId: first.sign === 1 ? 'ascending' : 'descending', compare: () => 0 };
	return {
		byId: undefined,
		compare: (one, other) => {
			for (const { field, sign } of keys) {
				const difference = compareValues(field.value(one), field.value(other));
				if (difference !== 0) return difference * sign;
			}
			// [INF] What is equal comes by id.
			return one.id - other.id;
		},
	};
}

function compareValues(one: unknown, other: unknown): number {
	if (typeof one === 'number' && typeof other === 'number') return one - other;
	const [a, b] = [String(one ?? '').toLowerCase(), String(other ?? '').toLowerCase()];
	return a < b ? -1 : a > b ? 1 : 0;
}
