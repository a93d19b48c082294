import { Problem } from './problems.js';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads a JSON body strictly (RFC 8259): bytes that are not UTF-8 are an error. Decoding would replace them silently, and
 * other data would be stored than was sent. A number that would become an integer only by rounding is also an error.
 *
 * @throws Problem `invalid_json`
 */
export function readJson(bytes: Buffer): unknown {
	try {
		const text = utf8.decode(bytes);
		const value: unknown = JSON.parse(text);
		return mayBeRounded.test(text) ? JSON.parse(refuseRounded(text)) : value;
	} catch {
		throw new Problem('invalid_json');
	}
}

/** A fraction, an exponent, or text that looks like one. Few bodies contain any, and only those are parsed a second time. */
const mayBeRounded = /\d(?:\.\d|[eE][-+\d])/;

/** The strings and numbers of valid JSON. Nothing else in it has digits or quotation marks. */
const stringsAndNumbers = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

/** A JSON number that is parsed as infinity, which no schema accepts as a number or an integer. */
const infinite = '1e999';

/** @param text valid JSON */
function refuseRounded(text: string): string {
	return text.replace(stringsAndNumbers, (token) =>
		token[0] !== '"' && Number.isInteger(Number(token)) && !isInteger(token) ? infinite : token,
	);
}

/** Whether the text of a number is an integer, before it is rounded to a double. `1.0` and `1e3` are integers. */
function isInteger(number: string): boolean {
	const [mantissa = '', exponent = '0'] = number.toLowerCase().split('e');
	const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
	const digits = (whole + fraction).replace(/0+$/, '');
	// The decimal places that remain after the exponent has moved the point.
	const places = digits.length - whole.length - Number(exponent);
	return digits === '' || places <= 0;
}

const none: readonly string[] = [];

/**
 * The names of the parameters in a URL whose percent-encoding is malformed, in their name or their value. The router's
 * parser passes such a parameter on unchanged, so it would be read as a different text.
 */
export function malformedParameters(url: string): readonly string[] {
	if (!url.includes('%') || isDecodable(url)) return none;
	const query = url.slice(url.search(/[?#]/) + 1);
	return query.split('&').flatMap((parameter) => {
		if (isDecodable(parameter)) return [];
		const [name = ''] = parameter.split('=', 1);
		return [isDecodable(name) ? decodeURIComponent(name) : name];
	});
}

function isDecodable(text: string): boolean {
	try {
		decodeURIComponent(text);
		return true;
	} catch {
		return false;
	}
}
