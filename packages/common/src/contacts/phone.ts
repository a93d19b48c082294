import {
	type CountryCode,
	findPhoneNumbersInText,
	getCountryCallingCode,
	isSupportedCountry,
	type PhoneNumber,
	parsePhoneNumberFromString,
} from 'libphonenumber-js/max';

/** Whether a code is the ISO 3166-1 code of a country with telephone numbers, such as `DE`. */
export function isCountry(code: string): code is CountryCode {
	return isSupportedCountry(code);
}

/** As ITU-T E.164 and the table of contacts have it: at most 15 digits. The library accepts up to 17 after the country code. */
const e164 = /^\+[1-9][0-9]{1,14}$/;

/** What doesn't print is removed, and full width becomes usual width, as both come with numbers that are pasted. */
const clean = (raw: string) =>
	raw
		.normalize('NFKC')
		.replace(/\p{Cf}/gu, '')
		.replace(/[\p{Cc}\s]+/gu, ' ')
		.trim();

/** One number: digits, what people put between them, and perhaps a plus. Digits in brackets at its end are an extension. */
const oneNumber = /^[+\d\s().‐-―-]*\d$/;

/**
 * Reads a value that is one telephone number and nothing else.
 *
 * @returns the number in E.164, or null if it is not valid. Without a country it accepts only numbers with a plus
 */
export function toE164(raw: string, country?: CountryCode): string | null {
	const text = clean(raw);
	return oneNumber.test(text) ? (readWhole(text, country)?.number ?? null) : null;
}

/**
 * Reads a field into which people write numbers with labels, extensions and remarks, and several numbers.
 *
 * @returns the first number in E.164 without its extension. Null if there is none, or if the value can mean another number as well:
 *   a wrong number calls a stranger
 */
export function readPhone(raw: string, country?: CountryCode): string | null {
	const text = clean(raw)
		// Two plus signs, brackets around the country code, and "00", which stands for a plus also where the country has another prefix.
		.replace(/\+[\s+]*\+/g, '+')
		.replace(/\(\s*\+([\d\s-]+)\)/g, '+$1 ')
		.replace(/^00 ?(?=[1-9])/, '+')
		// A label in brackets.
		.replace(/\([^\d()]*\)/g, ' ')
		.trim();
	// A spreadsheet has made it of a number, whose last digits are lost.
	if (/\de[+-]?\d/i.test(text)) return null;
	for (const part of text.split(/[,;|]/)) {
		// What follows a list number is a number by itself, or nothing is. "№" is "No" by now.
		const unnumbered = part.trim().replace(/^(?:(?:No|#) ?\d{1,2}[).:]?|\d{1,2}(?:\)|[.:](?= ))) ?/, '');
		const [withoutExtension = ''] = unnumbered.split(/ *\(\d{1,6}\)$/);
		const value = readWhole(withoutExtension, country) === undefined ? unnumbered : withoutExtension;
		const reading = readFirst(value, country) ?? readOne(value, country) ?? readWithoutPlus(value, country);
		if (reading !== undefined) return reading.e164;
	}
	return null;
}

/** A number, or null: the value can mean more than one. */
interface Reading {
	e164: string | null;
}

/**
 * Reads the first of several numbers: what stands before a space or a slash is a number by itself, and so is what stands behind it.
 * Behind a slash it may be another ending of the same number, which begins with an area code.
 */
function readFirst(value: string, country: CountryCode | undefined): Reading | undefined {
	const isOne = readWhole(value, country) !== undefined;
	for (const { 0: separator, index } of value.matchAll(/[/ ]/g)) {
		const text = value.slice(0, index);
		const first = readWhole(text, country);
		if (first === undefined) continue;
		const rest = value.slice(index + 1).replace(/^[\s–—-]+/, '');
		const isOtherEnding = separator === '/' && /^\D*(?:\d\D*){1,4}$/.test(rest);
		const isFollowed = isComplete(rest, country);
		const isSecond = isOtherEnding ? !isOne || /\d\D+\d/.test(text) : isFollowed && !isOne;
		if (isSecond) return { e164: sure(first, text, country) };
		// With all digits it is a number as well.
		if (isOne && (isFollowed || separator === '/')) return { e164: null };
	}
	return undefined;
}

/** Whether the text is a number from its beginning on, and not digits that are one as well. */
function isComplete(text: string, country: CountryCode | undefined): boolean {
	const number = readWhole(text, country);
	if (number === undefined) return false;
	if (text.startsWith('+') || digitsOf(text) !== number.nationalNumber) return true;
	return !hasTrunkPrefix(number) && isOfOneLength(number);
}

/** Reads the number that the value is, or that stands in it between words. */
function readOne(value: string, country: CountryCode | undefined): Reading | undefined {
	const whole = readWhole(value, country);
	// The trunk prefix behind the country code is written as if it were none, or belongs to the number, as in Italy.
	const without = /^\+\d{1,3} ?\(0/.test(value) ? readWhole(value.replace(/\(0[ -]?\)?/, ''), country) : undefined;
	const number = whole ?? without;
	if (number !== undefined)
		return { e164: without !== undefined && without.number !== number.number ? null : sure(number, value, country) };
	const [found] = findPhoneNumbersInText(value, country === undefined ? {} : { defaultCountry: country });
	if (found === undefined) return undefined;
	// Digits beside it belong to the number, or to nothing that is known.
	const isPart =
		/[\d)][\s().–—-]*$/.test(value.slice(0, found.startsAt)) || /^[\s().–—-]*\d/.test(value.slice(found.endsAt));
	return { e164: isPart ? null : sure(found.number, value.slice(found.startsAt, found.endsAt), country) };
}

/** @returns the number that is all of this text; undefined if it is not valid */
function readWhole(text: string, country: CountryCode | undefined): PhoneNumber | undefined {
	const options = { extract: false, ...(country === undefined ? {} : { defaultCountry: country }) };
	const number = parsePhoneNumberFromString(text.trim(), options);
	return number?.isValid() && e164.test(number.number) ? number : undefined;
}

/** @returns the number, or null if its text may mean another one */
function sure(number: PhoneNumber, text: string, country: CountryCode | undefined): string | null {
	const digits = digitsOf(text);
	if (!e164.test(number.number)) return null;
	// One digit behind a number, unless all of its digits are grouped so.
	const [withoutLast = ''] = text.split(/ \d$/);
	const isUsual = [number.formatNational(), number.formatInternational()].includes(text);
	if (withoutLast !== text && !isUsual && readWhole(withoutLast, country) !== undefined) return null;
	if (country === undefined || text.includes('+') || digits !== number.nationalNumber) return number.number;
	// Neither a plus nor a trunk prefix: it may begin with the country code, and in a country whose numbers have any length it may be
	// a part of one.
	const callingCode = getCountryCallingCode(country);
	const international = digits.startsWith(callingCode) ? readWhole(`+${digits}`, undefined) : undefined;
	if (international !== undefined)
		return international.getType() === 'MOBILE' || text.startsWith(`${callingCode} `) ? international.number : null;
	return hasTrunkPrefix(number) && !isOfOneLength(number) ? null : number.number;
}

const digitsOf = (text: string) => text.replace(/\D/g, '');

/** Whether its national form begins with a prefix that is no part of the number, such as 0 or 8. */
const hasTrunkPrefix = (number: PhoneNumber) => digitsOf(number.formatNational()) !== number.nationalNumber;

/** Whether the number is valid neither without its last digit nor with one more. */
function isOfOneLength({ number }: PhoneNumber): boolean {
	return [number.slice(0, -1), `${number}0`, `${number}5`].every((other) => readWhole(other, undefined) === undefined);
}

/** Reads a number of another country without its plus, if nothing of it can be a number of this country. */
function readWithoutPlus(text: string, country: CountryCode | undefined): Reading | undefined {
	const digits = digitsOf(text);
	if (country === undefined || digits.length < 11 || !/^[\d\s.-]+$/.test(text)) return undefined;
	const number = readWhole(`+${digits}`, undefined);
	if (number === undefined) return undefined;
	for (let length = 5; length <= digits.length; length++)
		if (readWhole(digits.slice(0, length), country) !== undefined) return undefined;
	return isOfOneLength(number) ? { e164: number.number } : undefined;
}
