import type { StandInContact } from './contact.js';
import type { Lookup } from './field-lookup.js';
import { type Filter, invalid } from './filter.js';
import { isMap, type Params, toInteger } from './php-values.js';
import { isReadable, type Portal } from './portal.js';
import type { Switches } from './switches.js';

/** [DOC] The size of a page, always. */
export const pageSize = 50;

/** The direction of a list, which is ordered by id. */
type Order = 'ascending' | 'descending';

interface ListRequest {
	method: string;
	params: Params;
	filter: Filter;
	order: Order;
	/** [FIELD] Beyond the end, begin again with the first page. */
	wrapsAround: boolean;
	/** [SRC] Ids are selected first and rows after: what was deleted in between makes the page shorter. */
	twoQueries: boolean;
}

export interface Page {
	rows: StandInContact[];
	total?: number;
	next?: number;
}

/** A page of a list, after its ids are chosen and before its rows are read. */
export interface PageInfo {
	/** Its place among all pages, from 1. */
	number: number;
	method: string;
	params: Params;
	ids: readonly number[];
}

/** One page of contacts, in two queries with the page hooks between them. */
export async function listPage(portal: Portal, request: ListRequest): Promise<Page> {
	const start = toInteger(request.params.start);
	// [DOC] start=-1 switches counting off.
	const counting = start >= 0;
	const chosen = choose(portal, request, counting ? Number.POSITIVE_INFINITY : pageSize);
	// [INF] The page that `start` lies in.
	let first = counting ? Math.floor(start / pageSize) * pageSize : 0;
	if (request.wrapsAround && first >= chosen.length) first = 0;
	const selected = chosen.slice(first, first + pageSize);

	const read = () => selected.map(({ id }) => portal.contacts.get(id)).filter((row) => row !== undefined);
	const before = request.twoQueries ? undefined : read().map((row) => ({ ...row }));
	const page: PageInfo = {
		number: ++portal.pages,
		method: request.method,
		params: request.params,
		ids: selected.map(({ id }) => id),
	};
	for (const hook of [...portal.pageHooks]) await hook(page);
	const rows = before ?? read();

	// [SRC] Neither without counting; [DOC] one page shows `total: 0`.
	if (!counting) return portal.switches.totalWithoutCount === 'zero' ? { rows, total: 0 } : { rows };
	const total = chosen.length;
	// [DOC] Only while there are more.
	return first + pageSize < total ? { rows, total, next: first + pageSize } : { rows, total };
}

/** The id query: the contacts that match and may be read, in order. */
function choose(portal: Portal, { filter, order }: ListRequest, max: number): StandInContact[] {
	const found: StandInContact[] = [];
	for (const contact of portal.contacts.fromId(filter.lowestId, order === 'descending')) {
		if (!isReadable(contact) || !filter.matches(contact)) continue;
		if (found.push(contact) >= max) break;
	}
	return found;
}

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
