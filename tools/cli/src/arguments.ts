import { readTimestamp } from '@contacts/common/schemas/fields.js';
import { UsageError } from './errors.js';

/** Whether this is a positive integer up to 2^53 − 1, in decimal digits. */
export const isId = (given: string): boolean => /^[1-9][0-9]{0,15}$/.test(given) && Number.isSafeInteger(Number(given));

/** An integer other than 0, within ±(2^53 − 1). @returns undefined when it is invalid */
export const parseChatId = (given: string): number | undefined =>
	isId(given.replace(/^-/, '')) ? Number(given) : undefined;

/**
 * An RFC 3339 time, or a date, which means 00:00 UTC.
 *
 * @returns the time in UTC; null: none given; undefined: invalid
 */
export function parseTime(given: unknown): string | null | undefined {
	if (given === undefined || given === null || given === '') return null;
	if (typeof given !== 'string') return undefined;
	const time = readTimestamp(/^\d{4}-\d\d-\d\d$/.test(given) ? `${given}T00:00:00Z` : given);
	return time === undefined ? undefined : new Date(time).toISOString();
}

// For Commander, which calls them with the value of an argument or option. Each throws UsageError.

/** @param what the subject of the sentence that refuses it, such as `--limit` */
export function positiveInteger(what: string) {
	return (given: string): number => {
		if (!isId(given)) throw new UsageError(`${what} must be a positive integer up to 9007199254740991.`);
		return Number(given);
	};
}

export function chatId(given: string): number {
	const id = parseChatId(given);
	if (id === undefined) throw new UsageError('A chat ID is an integer other than 0, within ±9007199254740991.');
	return id;
}

export function timeOf(option: string) {
	return (given: string): string => {
		const time = parseTime(given);
		if (!time) throw new UsageError(`${option} takes a date like 2027-01-31 or a time like 2027-01-31T12:00:00Z.`);
		return time;
	};
}
