import { UsageError } from './errors.js';

/** Whether this is a positive integer up to 2^53 − 1, in decimal digits. */
export const isId = (given: string): boolean => /^[1-9][0-9]{0,15}$/.test(given) && Number.isSafeInteger(Number(given));

/** An integer other than 0, within ±(2^53 − 1). @returns undefined when it is invalid */
export const parseChatId = (given: string): number | undefined =>
	isId(given.replace(/^-/, '')) ? Number(given) : undefined;

/** @throws UsageError */
export function parseLimit(given: string): number {
	if (!isId(given)) throw new UsageError('--limit takes a positive integer.');
	return Number(given);
}
