import { isUtf8 } from 'node:buffer';
import { type ParsedUrlQuery, parse } from 'node:querystring';

/** In a query: the name or the value of a parameter whose percent-encoding is malformed. No schema accepts it. */
export const malformed: unique symbol = Symbol('malformed percent-encoding');

/** The text of each parameter by its name; an array for a repeated name. */
export interface Query extends ParsedUrlQuery {
	[malformed]?: true;
}

/**
 * The router's parser of query strings. Names and values must be percent-encoded UTF-8. Any text in the place of another one
 * would be different from what the client meant. So a query with `malformed` values always has `malformed` as a name, too.
 */
export function readQuery(text: string): Query {
	// With its default, the parser would ignore all parameters after the thousandth.
	const options = { maxKeys: 0 };
	if (!text.includes('%')) return parse(text, '&', '=', options);
	const query: Query = parse(text, '&', '=', { ...options, decodeURIComponent: decode as (text: string) => string });
	if (Object.values<unknown>(query).flat().includes(malformed)) query[malformed] = true;
	return query;
}

/** Throws nothing for malformed text: thousands of exceptions for one long query would take 100 ms. */
function decode(text: string): string | typeof malformed {
	if (!text.includes('%')) return text;
	// The HTTP parser accepts no URL with other characters than those of ASCII.
	const bytes = Buffer.from(
		text.replace(escapes, (_, code) => String.fromCharCode(Number.parseInt(code, 16))),
		'latin1',
	);
	return !/%(?![0-9a-f]{2})/i.test(text) && isUtf8(bytes) ? bytes.toString() : malformed;
}

const escapes = /%([0-9a-f]{2})/gi;
