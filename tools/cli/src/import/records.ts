import { readJson } from '@contacts/common/schemas/fields.js';
import { CommandError } from '../errors.js';
import { maxRecordBytes, readLines } from './lines.js';

/** One record of a file: its fields by name, or why it can't be read. `line` counts from 1. */
export type SourceRecord = { line: number; fields: Record<string, unknown> } | { line: number; error: string };

/** The columns that a file may have, in any order, and the one that it must have. */
export interface Columns {
	names: readonly string[];
	required: string;
}

/** Decodes strictly: a byte that is not UTF-8 is an error instead of a replacement character. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** @returns the text, or undefined where the bytes are not UTF-8 */
export function decode(bytes: Uint8Array): string | undefined {
	try {
		return utf8.decode(bytes);
	} catch {
		return undefined;
	}
}

export const tooLong = `longer than ${maxRecordBytes} bytes`;
export const notUtf8 = 'not valid UTF-8';

/** The file can't be read from this line on. What was read before counts. */
export const unreadableFrom = (line: number, reason: string) =>
	new CommandError(`The file can't be read from line ${line} on: ${reason}.`);

/** Nothing done is no success: an empty file is more often a failed export than what somebody meant to import. */
export const noRecords = () => new CommandError('The file has no records: nothing was imported.');

/**
 * Reads NDJSON: one JSON object per line, or a JSON array with one on each line, as the command prints it. `node:readline` has no
 * limit for the length of a line, and in newer releases of Node.js it also ends a line at U+2028, which a JSON string may hold.
 */
export async function* readNdjson(chunks: AsyncIterable<Buffer>): AsyncGenerator<SourceRecord> {
	for await (const { number: line, bytes } of readLines(chunks)) {
		if (bytes === undefined) yield { line, error: tooLong };
		else yield* readObject(line, bytes);
	}
}

function* readObject(line: number, bytes: Buffer): Generator<SourceRecord> {
	if (decode(bytes) === undefined) return yield { line, error: notUtf8 };
	const record = withoutSeparators(bytes);
	if (record.length === 0) return;
	const value = readJson(record);
	if (typeof value !== 'object' || value === null || Array.isArray(value)) yield { line, error: 'not a JSON object' };
	else yield { line, fields: value as Record<string, unknown> };
}

const comma = 0x2c;
const spaces = [0x20, 0x09, 0x0d];

/** A line of an array without its comma, and nothing of a line that has only brackets. No copy: a line may be long. */
function withoutSeparators(bytes: Buffer): Buffer {
	let [start, end] = [0, bytes.length];
	while (start < end && spaces.includes(bytes[start] as number)) start++;
	while (end > start && spaces.includes(bytes[end - 1] as number)) end--;
	if (bytes[end - 1] === comma) end--;
	const isBrackets = end - start <= 2 && ['[', ']', '[]'].includes(bytes.toString('latin1', start, end));
	return bytes.subarray(start, isBrackets ? start : end);
}
