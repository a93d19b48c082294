/** The maximum nesting of lists and objects in a record. A contact has one level. */
export const maxLevels = 32;

const quote = 0x22;
const backslash = 0x5c;

/** Tracks the brackets of a JSON text byte by byte, outside strings. */
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

/** The nesting depth of lists and objects in a JSON text. */
export function levelsOf(text: Uint8Array): number {
	const nesting = new JsonNesting();
	for (const byte of text) nesting.add(byte);
	return nesting.deepest;
}
