/** The most levels of lists and objects that a record may have. A contact has one. */
export const maxLevels = 32;

const quote = 0x22;
const backslash = 0x5c;

/** Follows the brackets of a JSON text, byte by byte. What is within a string does not count. */
export class JsonNesting {
	level = 0;
	deepest = 0;
	inString = false;
	#escaped = false;

	add(byte: number): void {
		if (this.inString) {
			if (this.#escaped) this.#escaped = false;
			else if (byte === backslash) this.#escaped = true;
			else if (byte === quote) this.inString = false;
		} else if (byte === quote) {
			this.inString = true;
		} else if (byte === 0x5b || byte === 0x7b) {
			this.level++;
			if (this.level > this.deepest) this.deepest = this.level;
		} else if (byte === 0x5d || byte === 0x7d) {
			this.level--;
		}
	}
}

/** How many levels of lists and objects a JSON text has. */
export function levelsOf(text: Uint8Array): number {
	const nesting = new JsonNesting();
	for (const byte of text) nesting.add(byte);
	return nesting.deepest;
}
