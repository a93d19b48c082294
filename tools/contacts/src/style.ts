import { styleText } from 'node:util';

type Format = Parameters<typeof styleText>[0];

/** Text in a colour, where standard output is a terminal that shows colours (NO_COLOR, FORCE_COLOR). */
export const onOutput = (format: Format, text: string) => styleText(format, text, { stream: process.stdout });

/** The same for standard error. */
export const onError = (format: Format, text: string) => styleText(format, text, { stream: process.stderr });

const formats: Record<string, Format> = {
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

/** A word such as `live` or `revoked` in its colour; any other text as it is. Space around it stays. */
export function styleState(text: string): string {
	const format = formats[text.trim()];
	return format === undefined ? text : onOutput(format, text);
}
