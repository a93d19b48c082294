/** What a terminal obeys instead of showing it: control characters (C0, DEL, C1), and those that turn or break a line. */
const controls = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu;

/** Text with its control characters as `\uXXXX`. */
export function escapeControls(text: string, { keep = '' }: { keep?: '\n' | '' } = {}): string {
	return text.replace(controls, (character) =>
		character === keep ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
	);
}

/** The same for lines of JSON, which stay the same JSON. In them ASCII is escaped already, but for DEL. */
export function escapeJsonLines(lines: string): string {
	const ascii = Buffer.byteLength(lines) === lines.length;
	// Looking at each character takes a fiftieth of the time of a request.
	return ascii && !lines.includes('\x7f') ? lines : escapeControls(lines, { keep: '\n' });
}
