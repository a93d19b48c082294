/** A value with the entity tag of its version. */
interface Remembered<T> {
	entityTag: string;
	value: T;
	/** Size of the response body, in bytes. */
	bytes: number;
}

/** Keeps the most recently used values, up to a maximum number of bytes. */
export class RememberedLists<T> {
	readonly #kept = new Map<string, Remembered<T>>();
	readonly #maxBytes: number;
	#bytes = 0;

	constructor(maxBytes: number) {
		this.#maxBytes = maxBytes;
	}

	get(name: string): Remembered<T> | undefined {
		const found = this.#kept.get(name);
		if (found === undefined) return undefined;
		// The map is in the order of use, least recent first.
		this.#kept.delete(name);
		this.#kept.set(name, found);
		return found;
	}

	set(name: string, remembered: Remembered<T>): void {
		this.delete(name);
		if (remembered.bytes > this.#maxBytes) return;
		this.#kept.set(name, remembered);
		this.#bytes += remembered.bytes;
		for (const oldest of this.#kept.keys()) {
			if (this.#bytes <= this.#maxBytes) break;
			this.delete(oldest);
		}
	}

	delete(name: string): void {
		this.#bytes -= this.#kept.get(name)?.bytes ?? 0;
		this.#kept.delete(name);
	}
}
