import type { styleText } from 'node:util';

export type Style = Parameters<typeof styleText>[0];

const styles: Record<string, Style> = {
	ok: 'green',
	live: 'green',
	enabled: 'green',
	active: 'green',
	done: 'green',
	warning: 'yellow',
	planned: 'yellow',
	expired: 'yellow',
	problem: 'red',
	revoked: 'red',
	disabled: 'red',
	failed: 'red',
	skipped: 'dim',
	ended: 'dim',
};

/** The colour of a word such as `live` or `revoked`. */
export function styleOfState(word: string): Style | undefined {
	return Object.hasOwn(styles, word) ? styles[word] : undefined;
}
