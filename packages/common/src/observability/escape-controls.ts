/**
 * Characters that a terminal executes instead of showing: control characters (C0, DEL, C1), and those that reverse or break
 * a line.
 */
const controls = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu;

/** Escapes control characters as `\uXXXX`. */
export function escapeControls(text: string, { keep = '' }: { keep?: '\n' | '' } = {}): string {
	return text.replace(controls, (character) =>
		character === keep ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
	);
}

/** The same for lines of JSON, which keep their JSON value. JSON already escapes ASCII control characters, except DEL. */
export function escapeJsonLines(lines: string): string {
	const ascii = Buffer.byteLength(lines) === lines.length;
	// A check of each character would take 2 % of the time of a request.
	return ascii && !lines.includes('\x7f') ? lines : escapeControls(lines, { keep: '\n' });
}
