import type { Lookup } from './field-lookup.js';
import { invalid } from './filter.js';
import { isMap } from './php-values.js';
import type { Switches } from './switches.js';

/** The direction of a list, which is ordered by id. */
export type Order = 'ascending' | 'descending';

/**
 * Reads the order of a list.
 *
 * @param strict [DOC] crm.item.list refuses an unknown field or direction; [INF] crm.contact.list ignores it
 * @throws RestError INVALID_ARG_VALUE
 * @throws Error for any other field than the id: the portal can order by it, the stand-in can't
 */
export function readOrder(value: unknown, lookup: Lookup, strict: boolean, switches: Switches): Order {
	let order: Order | undefined;
	for (const [name, given] of Object.entries(isMap(value) ? value : {})) {
		const field = lookup(name);
		const direction = String(given).toUpperCase();
		if (field === undefined) {
			if (strict) throw invalid(`order: field '${name}' is not allowed in order`);
			continue;
		}
		if (strict && direction !== 'ASC' && direction !== 'DESC') {
			throw invalid(`order: allowed sort directions are ASC, DESC. But got '${String(given)}' for field '${name}'`);
		}
		if (field.name !== 'id') throw new Error(`The stand-in can't order by ${name}`);
		order ??= direction === 'DESC' ? 'descending' : 'ascending';
	}
	return order ?? switches.defaultOrder;
}
