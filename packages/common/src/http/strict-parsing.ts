import { Problem } from './problems.js';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads a JSON body strictly (RFC 8259): bytes that are not UTF-8 are an error here, where decoding would replace them
 * silently and store something else than was sent. So is a number that would become an integer only by being rounded.
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

/** A fraction or an exponent, or text that looks like one; few bodies have any, and only those are read a second time. */
const mayBeRounded = /\d(?:\.\d|[eE][-+\d])/;

/** The strings and the numbers of a text that is valid JSON: nothing else in it has digits or quotation marks. */
const stringsAndNumbers = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

/** A number in JSON that is infinite when it is read, which no schema accepts as a number or an integer. */
const infinite = '1e999';

/** @param text valid JSON */
function refuseRounded(text: string): string {
	return text.replace(stringsAndNumbers, (token) =>
		token[0] !== '"' && Number.isInteger(Number(token)) && !isInteger(token) ? infinite : token,
	);
}

/** Whether a number is an integer as it is written, before it is rounded to what a double holds: `1.0` and `1e3` are. */
function isInteger(number: string): boolean {
	const [mantissa = '', exponent = '0'] = number.toLowerCase().split('e');
	const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
	const digits = (whole + fraction).replace(/0+$/, '');
	// Decimal places that are left when the exponent has moved the point.
	const places = digits.length - whole.length - Number(exponent);
	return digits === '' || places <= 0;
}

const none: readonly string[] = [];

/**
 * The names of the parameters in a URL whose percent-encoding is malformed, in their name or their value. The router's parser
 * passes such a parameter on as it was written, so that it would be taken for another text.
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
