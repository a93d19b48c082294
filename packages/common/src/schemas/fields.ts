import { type TInteger, type TString, type TUnsafe, Type } from '@sinclair/typebox';

/** ±(2^53 − 1): the integers that a JSON number represents exactly. */
export const maxSafeInteger = Number.MAX_SAFE_INTEGER;

const maxBigint = 2n ** 63n - 1n;

/** The maximum number of elements in a page. */
export const maxPageLimit = 1000;

/**
 * The additional string formats of this product, each with its check and the message for an invalid value.
 *
 * - `stored-text`: what PostgreSQL stores unchanged. Its text type can't hold U+0000, and a lone surrogate has no UTF-8
 *   form, so it would be replaced silently.
 * - `calendar-date`: a day of the Gregorian calendar, RFC 3339 full-date, from 0001-01-01 on: PostgreSQL knows no year 0.
 * - `timestamp`: a moment, RFC 3339 date-time, of a real calendar date, in the years 1 to 9999 of UTC. `readTimestamp` returns its milliseconds.
 * - `decimal-id`: a positive integer up to 2^63 − 1 (PostgreSQL's bigint) in decimal digits without a leading zero.
 * - `page-limit`: the maximum number of elements in a response, 1 to `maxPageLimit`.
 */
export const formats = {
	'stored-text': {
		validate: (text: string) => !text.includes('\0') && text.isWellFormed(),
		message: 'must hold neither U+0000 nor a lone surrogate',
	},
	'calendar-date': {
		validate: isCalendarDate,
		message: 'must be a real calendar date, YYYY-MM-DD',
	},
	timestamp: {
		validate: (text: string) => readTimestamp(text) !== undefined,
		message: 'must be a date and time with its offset from UTC, as RFC 3339 has it: 2026-05-17T12:00:00Z',
	},
	'decimal-id': {
		validate: isDecimalId,
		message: 'must be a positive integer in decimal digits, at most 9223372036854775807',
	},
	'page-limit': {
		validate: (text: string) => /^[1-9][0-9]{0,9}$/.test(text) && Number(text) <= maxPageLimit,
		message: `must be an integer from 1 to ${maxPageLimit} in decimal digits`,
	},
} as const;

export type FormatName = keyof typeof formats;

/** A string of a format above, or null. It uses one `type` with two names, because a union would report each of its branches. */
export function nullableString(options: {
	format: FormatName;
	maxLength?: number;
	description: string;
	examples: (string | null)[];
}): TUnsafe<string | null> {
	return Type.Unsafe<string | null>({ type: ['string', 'null'], ...options });
}

/** A positive integer in decimal digits, as in a URL. */
export function decimalId(options: { description: string }): TString {
	return Type.String({ format: 'decimal-id', ...options });
}

/** An integer other than 0 that a JSON number represents exactly. */
export function nonZeroInteger(options: { description: string; examples: number[] }): TInteger {
	return Type.Integer({ minimum: -maxSafeInteger, maximum: maxSafeInteger, not: { const: 0 }, ...options });
}

/** Whether this is a positive integer up to 2^63 − 1 in decimal digits, without a leading zero. */
export function isDecimalId(text: string): boolean {
	// Only 19 digits can exceed it, and a BigInt for each request costs half a microsecond.
	return /^[1-9][0-9]{0,18}$/.test(text) && (text.length < 19 || BigInt(text) <= maxBigint);
}

function isCalendarDate(text: string): boolean {
	if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
	const [year, month, day] = [Number(text.slice(0, 4)), Number(text.slice(5, 7)), Number(text.slice(8))];
	const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
	const lengths = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
	return year >= 1 && day >= 1 && day <= (lengths[month - 1] ?? 0);
}

/** The years 1 to 9999 in UTC, in milliseconds since the epoch. With its offset a time may lie outside of the year that it names. */
const [minTimestamp, maxTimestamp] = [Date.parse('0001-01-01T00:00:00Z'), Date.parse('9999-12-31T23:59:59.999Z')];

/** @returns the milliseconds since the epoch of an RFC 3339 date-time, rounded down; undefined if it is not one */
export function readTimestamp(text: string): number | undefined {
	const match =
		/^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i.exec(text);
	if (match === null) return undefined;
	const [date = '', hours, minutes, seconds, fraction = '', offset = ''] = match.slice(1);
	if (!isCalendarDate(date)) return undefined;
	// A leap second counts as the first second of the next minute.
	const [whole, leap] = seconds === '60' ? ['59', 1000] : [seconds, 0];
	const time = Date.parse(`${date}T${hours}:${minutes}:${whole}${fraction.slice(0, 4)}${offset.toUpperCase()}`) + leap;
	return time >= minTimestamp && time <= maxTimestamp ? time : undefined;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads JSON strictly (RFC 8259): bytes that are not UTF-8 are an error. Decoding would replace them silently, and other
 * data would be stored than was sent. A number that would become an integer only by rounding becomes infinity, which no
 * schema accepts.
 *
 * @returns undefined for anything else
 */
export function readJson(bytes: Buffer): unknown {
	try {
		const text = utf8.decode(bytes);
		return JSON.parse(mayBeRounded.test(text) ? text.replace(stringsAndNumbers, toExact) : text);
	} catch {
		return undefined;
	}
}

/** A fraction, an exponent, or text that looks like one. Few bodies contain any. */
const mayBeRounded = /\d(?:\.\d|[eE][-+\d])/;

/**
 * The strings and numbers of JSON, and the parts of each number. A string may lack its end, as in invalid JSON. So each match
 * has one way to succeed, and the search takes linear time.
 */
const stringsAndNumbers = /"[^"\\]*(?:\\.[^"\\]*)*"?|-?(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([-+]?\d+))?/gs;

/** Replaces a number that only rounding makes an integer. A number in place of another one leaves invalid JSON invalid. */
function toExact(token: string, whole?: string, fraction = '', exponent = '0'): string {
	const isRounded =
		whole !== undefined && Number.isInteger(Number(token)) && !isInteger(whole, fraction, Number(exponent));
	return isRounded ? '1e999' : token;
}

/** Whether a number is an integer as it is written, before it is rounded to a double. `1.0` and `1e3` are integers. */
function isInteger(whole: string, fraction: string, exponent: number): boolean {
	const digits = whole + fraction;
	// Not with /0+$/, which takes quadratic time.
	let end = digits.length;
	while (digits[end - 1] === '0') end--;
	// The exponent moves the point. No digit but 0 may remain behind it.
	return end <= whole.length + exponent || end === 0;
}
