/** The number of rows per query. */
const pageSize = 1000;

/**
 * Reads rows page by page, so that a list of any length needs little memory. No statement is open between two pages, however
 * long their reader takes.
 *
 * @param limit the maximum number of rows
 * @param read returns up to `size` rows behind this one, or the first ones
 */
export async function* readPages<Row>(
	limit: number,
	read: (last: Row | undefined, size: number) => PromiseLike<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
	let last: Row | undefined;
	for (let left = limit; left > 0; ) {
		const size = Math.min(pageSize, left);
		const page = await read(last, size);
		yield page;
		if (page.length < size) return;
		left -= page.length;
		last = page.at(-1);
	}
}
