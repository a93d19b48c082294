import { type CountryCode, isSupportedCountry, parsePhoneNumberFromString } from 'libphonenumber-js/min';

/** Whether a code is the ISO 3166-1 code of a country with telephone numbers, such as `DE`. */
export function isCountry(code: string): code is CountryCode {
	return isSupportedCountry(code);
}

/**
 * Returns a telephone number in E.164 without its extension, or null if it is not valid. Without a country it accepts only
 * numbers with a plus: a guess would call a stranger.
 */
export function toE164(raw: string, country?: CountryCode): string | null {
	const number = parsePhoneNumberFromString(
		raw,
		country === undefined ? { extract: false } : { defaultCountry: country, extract: false },
	);
	return number?.isValid() ? number.number : null;
}
