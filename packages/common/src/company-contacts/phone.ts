import { type CountryCode, isSupportedCountry, parsePhoneNumberFromString } from 'libphonenumber-js/min';

/** Whether a code is the ISO 3166-1 code of a country with telephone numbers, such as `DE`. */
export function isCountry(code: string): code is CountryCode {
	return isSupportedCountry(code);
}

/** As ITU-T E.164 and the table of contacts have it: at most 15 digits. The library accepts up to 17 after the country code. */
const e164 = /^\+[1-9][0-9]{1,14}$/;

/**
 * Returns a telephone number in E.164 without its extension, or null if it is not valid. Without a country it accepts only
 * numbers with a plus: a guess would call a stranger.
 */
export function toE164(raw: string, country?: CountryCode): string | null {
	const number = parsePhoneNumberFromString(
		raw,
		country === undefined ? { extract: false } : { defaultCountry: country, extract: false },
	);
	return number?.isValid() && e164.test(number.number) ? number.number : null;
}
