import type { StandInContact } from './contact.js';
import type { Filter } from './filter.js';
import type { Order } from './order.js';
import { type Params, toInteger } from './php-values.js';
import { isReadable, type Portal } from './portal.js';

/** [DOC] The size of a page, always. */
export const pageSize = 50;

export interface ListRequest {
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
	await portal.pageHooks.run({
		number: ++portal.pages,
		method: request.method,
		params: request.params,
		ids: selected.map(({ id }) => id),
	});
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
