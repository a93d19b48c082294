import { CommandError } from '../errors.js';

/** One contact of a file: its fields by name, or why they can't be read. `line` counts from 1. */
export type SourceRecord = { line: number; fields: Record<string, unknown> } | { line: number; error: string };

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

/** Nothing done is no success: an empty file is more often a failed export than what somebody meant to import. */
export const noRecords = () => new CommandError('The file has no records: nothing was imported.');
