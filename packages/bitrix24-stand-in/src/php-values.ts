/** Parameters as PHP would see them: nested maps and lists of strings, or of JSON's types. */
export type Params = Record<string, unknown>;

/** Whether it is a map, so neither a list nor a scalar. */
export function isMap(value: unknown): value is Params {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The values of a list or of a map; PHP knows no difference. A scalar is a list of one. */
export function toList(value: unknown): unknown[] {
	if (Array.isArray(value)) return value;
	if (isMap(value)) return Object.values(value);
	return value === undefined || value === null || value === '' ? [] : [value];
}

/** PHP's cast: the number at the start of a text, 0 for what has none. */
export function toInteger(value: unknown): number {
	if (typeof value === 'boolean') return value ? 1 : 0;
	const number = typeof value === 'number' ? value : Number.parseInt(String(value ?? ''), 10);
	return Number.isFinite(number) ? Math.trunc(number) : 0;
}

/** PHP's cast: "0" is false, like "" and 0. */
export function toBoolean(value: unknown): boolean {
	return Boolean(value) && value !== '0';
}

/** [DOC] REST's own booleans: Y and N, and what PHP calls true. */
export function isYes(value: unknown): boolean {
	return value === 'Y' || value === 'y' || value === true || value === 'true' || value === 1 || value === '1';
}

/**
 * A PHP array as json_encode gives it. [REC] An empty one is `[]`, though it was a map, and one whose keys are 0, 1, 2 ... in
 * this order is a list: the keys are lost.
 */
export function encodeArray(entries: [key: string, value: unknown][]): unknown {
	if (entries.every(([key], index) => key === String(index))) return entries.map(([, value]) => value);
	return Object.fromEntries(entries);
}

/**
 * Reads a query string or a form body as PHP does: `filter[>id]=5&select[]=id`, `+` for a space, the name ending at the first
 * `=`. So an operator with `=` in it has to be percent-encoded, as the portal demands too. [DOC] [INF]
 */
export function parseQuery(text: string): Params {
	const root: Tree = new Map();
	for (const [name, value] of new URLSearchParams(text)) {
		const path = pathOf(name);
		if (path !== undefined) put(root, path, value);
	}
	const params = fromTree(root);
	return isMap(params) ? params : Object.fromEntries(toList(params).entries());
}

type Tree = Map<string, Tree | string>;

/** The keys that a parameter's name leads through; "" stands for the next free number. */
function pathOf(name: string): string[] | undefined {
	const open = name.indexOf('[');
	if (open === 0 || name === '') return undefined;
	// Without a closing bracket it is no array; PHP makes an underscore of it.
	if (open < 0 || !name.includes(']', open)) return [name.replaceAll(/[ .[]/g, '_')];
	const keys = [...name.slice(open).matchAll(/\[([^\]]*)\]/g)].map((match) => match[1] ?? '');
	return [name.slice(0, open).replaceAll(/[ .]/g, '_'), ...keys];
}

function put(tree: Tree, path: string[], value: string): void {
	let node = tree;
	path.forEach((name, depth) => {
		const key = name === '' ? String(nextNumber(node)) : name;
		if (depth === path.length - 1) {
			node.set(key, value);
			return;
		}
		const below = node.get(key);
		const child: Tree = below instanceof Map ? below : new Map();
		node.set(key, child);
		node = child;
	});
}

function nextNumber(tree: Tree): number {
	const numbers = [...tree.keys()].filter((key) => /^\d+$/.test(key)).map(Number);
	return numbers.length === 0 ? 0 : Math.max(...numbers) + 1;
}

function fromTree(tree: Tree): unknown {
	const entries = [...tree].map(([key, value]): [string, unknown] => [
		key,
		value instanceof Map ? fromTree(value) : value,
	]);
	return entries.length === 0 ? {} : encodeArray(entries);
}
