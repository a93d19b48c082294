import { CommandError } from '../errors.js';
import { readElements } from './json-elements.js';
import { levelsOf, maxLevels } from './json-nesting.js';
import { maxRecordBytes, readLines } from './lines.js';
import { decode, type SourceRecord } from './record.js';

/** Reads NDJSON: one JSON object per line. */
export async function* readNdjson(chunks: AsyncIterable<Buffer>): AsyncGenerator<SourceRecord> {
	for await (const { number: line, bytes } of readLines(chunks)) {
		const text = bytes && decode(bytes);
		if (text?.trim() === '') continue;
		if (bytes === undefined) yield { line, error: tooLong };
		else if (text === undefined) yield { line, error: 'not valid UTF-8' };
		else if (levelsOf(bytes) > maxLevels) yield { line, error: tooDeep };
		else yield toRecord(line, parse(text));
	}
}

/**
 * Reads a JSON array of objects. `line` is the place in the array, counted from 1.
 *
 * @throws CommandError when the file stops being a JSON array; earlier records are kept
 */
export async function* readJsonArray(chunks: AsyncIterable<Buffer>): AsyncGenerator<SourceRecord> {
	const elements = readElements(chunks);
	let place = 0;
	const broken = () =>
		new CommandError(`The file is no JSON array of objects in UTF-8: it breaks off after element ${place}.`);
	while (true) {
		const next = await elements.next().catch(() => ({ done: true as const, value: false }));
		if (next.done) {
			if (next.value) return;
			throw broken();
		}
		const { bytes, levels } = next.value;
		const line = place + 1;
		if (bytes === undefined) yield { line, error: tooLong };
		else if (levels > maxLevels) yield { line, error: tooDeep };
		else {
			const value = parse(decode(bytes));
			if (value === undefined) throw broken();
			yield toRecord(line, value);
		}
		place = line;
	}
}

const tooLong = `longer than ${maxRecordBytes} bytes`;
const tooDeep = `nested deeper than ${maxLevels} levels`;

/** @returns undefined when the text is not JSON */
function parse(text: string | undefined): unknown {
	try {
		return JSON.parse(text ?? '');
	} catch {
		return undefined;
	}
}

function toRecord(line: number, value: unknown): SourceRecord {
	if (typeof value !== 'object' || value === null || Array.isArray(value)) return { line, error: 'not a JSON object' };
	return { line, fields: value as Record<string, unknown> };
}
