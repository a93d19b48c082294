import { extname } from 'node:path';
import { Option } from 'commander';
import { UsageError } from '../errors.js';
import type { OutputOptions } from '../terminal/output.js';
import { readCsv } from './csv.js';
import { readNdjson } from './ndjson.js';

const readers = { csv: readCsv, ndjson: readNdjson };

type Format = keyof typeof readers;

/** The options of a command that reads a file. */
export interface ReadOptions extends OutputOptions {
	format?: Format;
}

export const formatOption = () =>
	new Option('--format <format>', 'if the name does not show it').choices(Object.keys(readers));

/** @param format default: the extension of the file name */
export function readerFor(path: string, format: Format | undefined): (typeof readers)[Format] {
	const extension = extname(path).slice(1).toLowerCase();
	const found = format ?? (extension === 'jsonl' ? 'ndjson' : extension);
	if (!Object.hasOwn(readers, found))
		throw new UsageError('The file name does not end in .csv or .ndjson: say --format.');
	return readers[found as Format];
}
