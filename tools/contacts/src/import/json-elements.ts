import { JsonNesting } from './json-nesting.js';
import { maxRecordBytes } from './lines.js';

export interface JsonElement {
	/** The text of the element; undefined for one that is longer than `maxRecordBytes`. */
	bytes: Buffer | undefined;
	levels: number;
}

const comma = 0x2c;
const opening = 0x5b;
const closing = 0x5d;
const byteOrderMark = [0xef, 0xbb, 0xbf];
const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/** What may come next: the array's bracket, an element, more of it, what follows an element, or nothing but white space. */
type Place = 'start' | 'first element' | 'element' | 'within' | 'after' | 'end';

/**
 * Splits a JSON array into its elements, in bounded memory. The caller must parse each element. An object or
 * list is returned as soon as it is complete, whatever follows it.
 *
 * @returns whether the array was complete, with nothing but white space around it
 */
export async function* readElements(chunks: AsyncIterable<Buffer>): AsyncGenerator<JsonElement, boolean> {
	let place: Place = 'start';
	let markBytes = 0;
	let nesting = new JsonNesting();
	let parts: Buffer[] = [];
	let size = 0;

	const add = (part: Buffer) => {
		size += part.length;
		if (size > maxRecordBytes) parts = [];
		else parts.push(part);
	};
	const take = (): JsonElement => {
		const element = { bytes: size > maxRecordBytes ? undefined : Buffer.concat(parts), levels: nesting.deepest };
		nesting = new JsonNesting();
		parts = [];
		size = 0;
		return element;
	};

	for await (const chunk of chunks) {
		// Where the current element begins in this chunk.
		let from = 0;
		for (let at = 0; at < chunk.length; at++) {
			const byte = chunk[at] as number;
			if (place === 'within') {
				const ends = nesting.level === 0 && !nesting.inString && (byte === comma || byte === closing);
				if (!ends) {
					nesting.add(byte);
					if (nesting.level > 0 || nesting.inString || (byte !== closing && byte !== 0x7d)) continue;
				}
				add(chunk.subarray(from, ends ? at : at + 1));
				yield take();
				place = 'after';
				if (!ends) continue;
			} else if (place === 'start' && byte === byteOrderMark[markBytes]) {
				markBytes++;
				continue;
			}
			if (isSpace(byte)) continue;
			if (place === 'start' && byte === opening && (markBytes === 0 || markBytes === 3)) place = 'first element';
			else if (place === 'after' && byte === comma) place = 'element';
			else if ((place === 'after' || place === 'first element') && byte === closing) place = 'end';
			else if ((place === 'first element' || place === 'element') && byte !== comma && byte !== closing) {
				place = 'within';
				from = at;
				nesting.add(byte);
			} else return false;
		}
		if (place === 'within') add(chunk.subarray(from));
	}
	return (place as Place) === 'end';
}
