import { Readable } from 'node:stream';
import { streamArray } from 'stream-json/streamers/stream-array.js';
import type { StreamBaseOptions } from 'stream-json/streamers/stream-base.js';
import { Failure } from '../failure.js';
import { maxRecordBytes, readLines } from './lines.js';
import { decode, type SourceRecord } from './record.js';

/** Reads NDJSON: one JSON object a line. */
export async function* readNdjson(chunks: AsyncIterable<Buffer>): AsyncGenerator<SourceRecord> {
	for await (const { number: line, bytes } of readLines(chunks)) {
		if (bytes?.length === 0) continue;
		const text = bytes && decode(bytes);
		if (bytes === undefined) yield { line, refusal: `longer than ${maxRecordBytes} bytes` };
		else if (text === undefined) yield { line, refusal: 'not valid UTF-8' };
		else yield toRecord(line, parse(text));
	}
}

/**
 * Reads a JSON array of objects. `line` is the place in the array, counted from 1.
 *
 * @throws Failure when the file stops being a JSON array: what came before is kept
 */
export async function* readJsonArray(chunks: AsyncIterable<Buffer>): AsyncGenerator<SourceRecord> {
	let place = 0;
	let broken = false;
	// It must not destroy itself at an error, and with it the elements that it has read but not given yet.
	const elements = streamArray.withParserAsStream({ autoDestroy: false } as StreamBaseOptions);
	const source = Readable.from(
		decodePieces(chunks, () => {
			broken = true;
		}),
	);
	source.pipe(elements);
	try {
		for await (const { value } of elements as AsyncIterable<{ value: unknown }>) yield toRecord(++place, value);
	} catch {
		broken = true;
	} finally {
		source.destroy();
	}
	if (broken) throw new Failure(`The file is no JSON array of objects in UTF-8: it breaks off after element ${place}.`);
}

/** The text, cut after each closing brace: the parser gives nothing of a piece that is wrong. It ends at an error. */
async function* decodePieces(chunks: AsyncIterable<Buffer>, onError: () => void): AsyncGenerator<string> {
	const decoder = new TextDecoder('utf-8', { fatal: true });
	try {
		for await (const chunk of chunks) {
			for (let from = 0; from < chunk.length; ) {
				const brace = chunk.indexOf(0x7d, from);
				const end = brace === -1 ? chunk.length : brace + 1;
				yield decoder.decode(chunk.subarray(from, end), { stream: true });
				from = end;
			}
		}
		yield decoder.decode();
	} catch {
		onError();
	}
}

function parse(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

function toRecord(line: number, value: unknown): SourceRecord {
	if (typeof value !== 'object' || value === null || Array.isArray(value))
		return { line, refusal: 'not a JSON object' };
	return { line, fields: value as Record<string, unknown> };
}
