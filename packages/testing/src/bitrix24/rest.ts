/** Parameters of a call. */
export type Params = Record<string, unknown>;

export function isMap(value: unknown): value is Params {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * The system's errors, with their texts and the HTTP statuses of the newest documentation. Earlier ones have others, so no client
 * may depend on them. Any other error has the status 400.
 */
const systemErrors: Record<string, [text: string, status: number]> = {
	QUERY_LIMIT_EXCEEDED: ['Too many requests', 503],
	OPERATION_TIME_LIMIT: ['Method is blocked due to operation time limit.', 429],
	OVERLOAD_LIMIT: ['REST API is blocked due to overload.', 401],
	INVALID_CREDENTIALS: ['Invalid request credentials', 401],
	NO_AUTH_FOUND: ['Wrong authorization data', 401],
	insufficient_scope: ['The request requires higher privileges than provided by the webhook token', 401],
	ACCESS_DENIED: ['Access denied', 400],
	PORTAL_DELETED: ['Portal was deleted', 403],
	ERROR_BATCH_LENGTH_EXCEEDED: ['Max batch length exceeded', 400],
	ERROR_BATCH_METHOD_NOT_ALLOWED: ['Method is not allowed for batch usage', 405],
	ERROR_METHOD_NOT_FOUND: ['Method not found!', 404],
	INTERNAL_SERVER_ERROR: ['Internal server error', 500],
	ERROR_UNEXPECTED_ANSWER: ['Server returned an unexpected response', 500],
};

/** An error that a method returns: `{"error": code, "error_description": description}`. */
export class RestError extends Error {
	constructor(
		readonly code: string,
		readonly description = systemErrors[code]?.[0] ?? '',
		readonly status = systemErrors[code]?.[1] ?? 400,
	) {
		super(`${code}: ${description}`);
	}
}

/** Minutes east of UTC: "+03:00" is 180. */
function offsetMinutes(offset: string): number {
	const [, sign, hours, minutes] = /^([+-])(\d{2}):(\d{2})$/.exec(offset) ?? [];
	return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
}

/** ISO 8601 in the CRM's zone, in whole seconds: 2026-08-20T09:10:29+03:00. */
export function formatDate(milliseconds: number, offset: string): string {
	return `${new Date(milliseconds + offsetMinutes(offset) * 60_000).toISOString().slice(0, 19)}${offset}`;
}

/** The date of a filter. Without an offset, it is in the CRM's zone. */
export function parseDate(text: string, offset: string): number {
	return Date.parse(/(Z|[+-]\d{2}:\d{2})$/.test(text) ? text : `${text}${offset}`);
}

/** A PHP array as json_encode writes it: empty or with the keys 0, 1, 2 … it is a list, even if it was a map. */
export function encodeArray(entries: [key: string, value: unknown][]): unknown {
	const isList = entries.every(([key], index) => key === String(index));
	return isList ? entries.map(([, value]) => value) : Object.fromEntries(entries);
}

type Tree = Map<string, string | Tree>;

/** Reads a query or a form as PHP does: `filter[>id]=1` is a map in a map, and `select[]=id` a list. */
export function parseQuery(query: string): Params {
	const root: Tree = new Map();
	for (const [name, value] of new URLSearchParams(query)) {
		const [first = '', ...inner] = name.split('[');
		const keys = [first, ...inner.map((key) => key.replace(/\]$/, ''))];
		let tree = root;
		for (const key of keys.slice(0, -1)) {
			const below = tree.get(key);
			const next: Tree = below instanceof Map ? below : new Map();
			tree.set(key, next);
			tree = next;
		}
		tree.set(keys.at(-1) || (keys.length > 1 ? String(tree.size) : ''), value);
	}
	return Object.fromEntries([...root].map(([name, value]) => [name, encodeTree(value)]));
}

const encodeTree = (value: string | Tree): unknown =>
	typeof value === 'string' ? value : encodeArray([...value].map(([key, each]) => [key, encodeTree(each)]));
