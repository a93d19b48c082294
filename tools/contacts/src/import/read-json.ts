import { Readable } from 'node:stream';
import { streamArray } from 'stream-json/streamers/stream-array.js';
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
	const elements = streamArray.withParserAsStream();
	const source = Readable.from(decodeAll(chunks))
		.on('error', (error) => elements.destroy(error))
		.pipe(elements);
	try {
		for await (const { value } of source as AsyncIterable<{ value: unknown }>) yield toRecord(++place, value);
	} catch {
		throw new Failure(`The file is no JSON array of objects in UTF-8: it breaks off after element ${place}.`);
	}
}

async function* decodeAll(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
	const decoder = new TextDecoder('utf-8', { fatal: true });
	for await (const chunk of chunks) yield decoder.decode(chunk, { stream: true });
	yield decoder.decode();
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
