import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import {
	type CountryCode,
	getCountries,
	getCountryCallingCode,
	getExampleNumber,
	Metadata,
	parsePhoneNumberFromString,
} from 'libphonenumber-js/max';
import examples from 'libphonenumber-js/mobile/examples';
import { describe, expect, test } from 'vitest';
import { readPhone, toE164 } from './phone.js';

/** Values as people write them, and the numbers that they mean; null: none, or more than one. */
const rows: [CountryCode | null, string, string | null][] = JSON.parse(
	readFileSync(new URL('phones.json', import.meta.url), 'utf8'),
);

test.each(rows)('the default country %s and the value %j give %s', (country, value, number) => {
	expect(readPhone(value, country ?? undefined)).toBe(number);
});

/** The example of each country that the library has, and numbers of its fixed lines. */
const numbers = getCountries().flatMap((country) => {
	const metadata = new Metadata();
	metadata.selectNumberingPlan(country);
	const callingCode = getCountryCallingCode(country);
	const pattern = (metadata as unknown as { type(name: string): { pattern(): string } | undefined }).type('FIXED_LINE');
	const drawn = pattern
		? fc.sample(fc.stringMatching(new RegExp(`^(?:${pattern.pattern()})$`)), { seed: 1, numRuns: 12 })
		: [];
	const fixed = drawn.map((national: string) => parsePhoneNumberFromString(`+${callingCode}${national}`));
	return [getExampleNumber(country, examples), ...fixed].flatMap((number) =>
		number?.isValid() && number.country === country && number.number.length <= 16
			? [
					{
						country,
						number: number.number as string,
						national: number.formatNational(),
						international: number.formatInternational(),
					},
				]
			: [],
	);
});

const digitsOf = (text: string) => text.replace(/\D/g, '');
const isNational = (digits: string, country: CountryCode) =>
	parsePhoneNumberFromString(digits, { defaultCountry: country, extract: false })?.isValid() ?? false;

test('each number of every country is read in its own plain forms', () => {
	expect(new Set(numbers.map(({ country }) => country)).size).toBeGreaterThan(230);
	const lost = numbers.flatMap(({ country, number, national, international }) => {
		const forms = [
			...[number, international, international.replaceAll(' ', '-'), `00${digitsOf(international)}`],
			...[national, digitsOf(national), national.replaceAll(' ', '-'), national.replaceAll(/[ -]/g, '.')],
		];
		return forms.filter((form) => readPhone(form, country) !== number).map((form) => `${country} ${form}`);
	});
	expect(lost).toEqual([]);
});

interface Drawn {
	national: string;
	international: string;
	plain: string;
	/** Digits of an extension. */
	extension: string;
	/** Another number, in one of its plain forms. */
	other: string;
}

/** What people do to a number. The result is that number, or null, and never another one. */
const disturbances: Record<string, (drawn: Drawn) => string> = {
	'digits behind it in brackets': ({ plain, extension }) => `${plain} (${extension})`,
	'digits behind it': ({ plain, extension }) => `${plain} ${extension}`,
	'an extension behind a word': ({ plain, extension }) => `${plain} доб. ${extension}`,
	'an extension behind a sign': ({ plain, extension }) => `${plain}#${extension}`,
	'an extension behind an asterisk': ({ plain, extension }) => `${plain}*${extension}`,
	'another ending behind a slash': ({ plain, extension }) => `${plain}/${extension}`,
	'a slash after the first group': ({ national }) => national.replace(' ', '/'),
	'a spaced slash after the first group': ({ national }) => national.replace(' ', ' / '),
	'no plus': ({ international }) => international.slice(1),
	'digits without a plus': ({ international }) => digitsOf(international),
	'marks of direction': ({ plain }) => `\u202a${plain}\u202c`,
	'isolating marks': ({ national }) => `\u2066${national}\u2069`,
	'a byte order mark': ({ plain }) => `\ufeff${plain}\u200e`,
	'spaces that do not break': ({ plain }) => `\u00a0${plain.replaceAll(' ', '\u00a0')}`,
	'full width': ({ plain }) => plain.replace(/\d/g, (digit) => String.fromCharCode(0xff10 + Number(digit))),
	'brackets around the country code': ({ international }) => international.replace(/^(\+\d+)/, '($1)'),
	'brackets around the country and area code': ({ international }) =>
		international.replace(/^(\+\d+) (\d+)/, '($1-$2)'),
	'two plus signs': ({ international }) => `+${international}`,
	'a trunk prefix behind the country code': ({ international }) => international.replace(/^(\+\d+) /, '$1 (0) '),
	'a trunk prefix in brackets with the area code': ({ international }) =>
		international.replace(/^(\+\d+) (\d+)/, '$1 (0-$2)'),
	'a label': ({ plain }) => `моб. ${plain}`,
	'a label in brackets': ({ plain }) => `(раб.) ${plain}`,
	'a remark in front': ({ plain }) => `не звонить! ${plain}`,
	'a remark behind': ({ plain }) => `${plain} Иван`,
	'a list number': ({ plain }) => `1) ${plain}`,
	'a list number with a point': ({ plain }) => `2. ${plain}`,
	'a list number, and no trunk prefix': ({ international }) => `1) ${international.replace(/^\+\d+ /, '')}`,
	'no trunk prefix': ({ international }) => international.replace(/^\+\d+ /, ''),
	'another number behind a line': ({ plain, other }) => `${plain} | ${other}`,
	'another number behind a word': ({ plain, other }) => `${plain} и ${other}`,
	'another number behind a space': ({ plain, other }) => `${plain} ${other}`,
	'another number behind a comma': ({ plain, other }) => `${plain}, ${other}`,
	'another number behind a dash': ({ plain, other }) => `${plain} - ${other}`,
	'another number behind a slash': ({ plain, other }) => `${plain} / ${other}`,
	'another number in another line': ({ plain, other }) => `${plain}\n${other}`,
};

describe.each(Object.entries(disturbances))('with %s', (_, disturb) => {
	test('a number of any country is read as itself or not at all', () => {
		const random = fc.sample(
			fc.record({ extension: fc.integer({ min: 1, max: 9999 }), form: fc.nat(3), other: fc.nat(20) }),
			{ seed: 7, numRuns: numbers.length },
		);
		const wrong: string[] = [];
		let read = 0;
		for (const [index, { country, number, national, international }] of numbers.entries()) {
			const { extension, form, other } = random[index] as (typeof random)[number];
			const value = disturb({
				national,
				international,
				plain: [national, international, number, digitsOf(national)][form] as string,
				extension: String(extension),
				other: numbers[(index + other) % numbers.length]?.international as string,
			});
			const result = readPhone(value, country);
			if (result === number) read++;
			// Where numbers have any length, all digits may be one as well. It is the number that is written there.
			else if (result !== null && !isNational(digitsOf(value), country))
				wrong.push(`${country} ${value}: ${result}, not ${number}`);
		}
		expect(wrong).toEqual([]);
		expect(read).toBeGreaterThan(0);
	});
});

test('an import takes one number and nothing else, whatever does not print around it', () => {
	for (const value of ['\u202a+7 (912) 345-67-89\u202c', '+7 912 345 67 89\ufeff', '＋７ ９１２ ３４５ ６７ ８９'])
		expect(toE164(value)).toBe('+79123456789');
	for (const value of [
		'моб. +7 912 345-67-89',
		'+7 812 345-67-89 (1234)',
		'+49 30 901820 (12)',
		'+49 30 901820/21',
		'+7 912 345-67-89, +7 913 345-67-89',
		'8 912 345-67-89',
	])
		expect(toE164(value)).toBeNull();
});
