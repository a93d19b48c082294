import { type CountryCode, isSupportedCountry, parsePhoneNumberFromString } from 'libphonenumber-js/min';

/** Whether this is the ISO 3166-1 code of a country that has telephone numbers, such as `DE`. */
export function isCountry(code: string): code is CountryCode {
	return isSupportedCountry(code);
}

/**
 * A telephone number in E.164, without its extension, or null where it is no valid number. Without a country only a number
 * with a plus is taken: a guess would call a stranger.
 */
export function toE164(raw: string, country?: CountryCode): string | null {
	const number = parsePhoneNumberFromString(
		raw,
		country === undefined ? { extract: false } : { defaultCountry: country, extract: false },
	);
	return number?.isValid() ? number.number : null;
}
