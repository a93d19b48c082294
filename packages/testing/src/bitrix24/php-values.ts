/** Parameters as PHP would see them: nested maps and lists of strings, or of JSON's types. */
export type Params = Record<string, unknown>;

/** Whether it is a map: neither a list nor a scalar. */
export function isMap(value: unknown): value is Params {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The values of a list or a map, which PHP does not distinguish. A scalar becomes a list of one. */
export function toList(value: unknown): unknown[] {
	if (Array.isArray(value)) return value;
	if (isMap(value)) return Object.values(value);
	return value === undefined || value === null || value === '' ? [] : [value];
}

/** PHP's integer cast: the number at the start of a text, or 0 if there is none. */
export function toInteger(value: unknown): number {
	if (typeof value === 'boolean') return value ? 1 : 0;
	const number = typeof value === 'number' ? value : Number.parseInt(String(value ?? ''), 10);
	return Number.isFinite(number) ? Math.trunc(number) : 0;
}

/** PHP's boolean cast: "0" is false, like "" and 0. */
export function toBoolean(value: unknown): boolean {
	return Boolean(value) && value !== '0';
}

/** [DOC] Whether a value means yes to the REST API: Y, or a form of true. Everything else means no. */
export function isYes(value: unknown): boolean {
	return value === 'Y' || value === 'y' || value === true || value === 'true' || value === 1 || value === '1';
}

/**
 * A PHP array as json_encode writes it. [REC] An empty array becomes `[]`, even if it was a map. An array with the keys 0, 1,
 * 2 … in this order becomes a list, without its keys.
 */
export function encodeArray(entries: [key: string, value: unknown][]): unknown {
	if (entries.every(([key], index) => key === String(index))) return entries.map(([, value]) => value);
	return Object.fromEntries(entries);
}
