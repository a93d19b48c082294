import { once } from 'node:events';
import { createReadStream, type ReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { extname } from 'node:path';
import type { Readable } from 'node:stream';
import { CommandError, UsageError } from '../errors.js';
import { createProgress, type Progress } from '../progress.js';
import { streams } from '../streams.js';

import { type Columns, readCsv, readNdjson, type SourceRecord } from './read-records.js';

const readers = { csv: readCsv, ndjson: readNdjson };

export type Format = keyof typeof readers;

/**
 * Opens a file for an import, shows the progress while its records are read, and closes the file after the work.
 *
 * @param path `-` for standard input
 * @param format default: the extension of the file name
 * @throws UsageError, CommandError when there is no such format or file
 */
export async function withRecords<T>(
	path: string,
	format: Format | undefined,
	columns: Columns,
	work: (records: AsyncIterable<SourceRecord>) => Promise<T>,
): Promise<T> {
	const read = readers[format ?? formatOf(path)];
	const source = path === '-' ? standardInput() : await openFile(path);
	try {
		return await work(withProgress(read(source.chunks, columns), source));
	} finally {
		source.chunks.destroy();
	}
}

function formatOf(path: string): Format {
	if (path === '-') throw new UsageError('Standard input has no file name: say --format.');
	const name = extname(path).slice(1).toLowerCase().replace('jsonl', 'ndjson');
	if (Object.hasOwn(readers, name)) return name as Format;
	throw new UsageError('The file name does not end in .csv or .ndjson: say --format.');
}

interface Source {
	chunks: Readable & { bytesRead?: number };
	/** In bytes; undefined: unknown. */
	size: number | undefined;
}

function standardInput(): Source {
	const { stdin } = streams();
	if (stdin.isTTY) throw new UsageError('Name a file, or pipe one into this command.');
	return { chunks: stdin, size: undefined };
}

/** @throws CommandError when this is not a file that can be read */
export async function openFile(path: string): Promise<{ chunks: ReadStream; size: number }> {
	const refuse = ({ code }: NodeJS.ErrnoException) => {
		throw new CommandError(code === 'ENOENT' ? `There is no file ${path}.` : `${path} can't be read (${code}).`);
	};
	const stats = await stat(path).catch(refuse);
	if (stats.isDirectory()) throw new CommandError(`${path} is a folder.`);
	const chunks = createReadStream(path);
	// Nobody listens for its errors until the caller reads, which may be after a connection to the database.
	await once(chunks, 'open').catch(refuse);
	return { chunks, size: stats.size };
}

/** Shows the progress from the first record on, so that it covers no question that is asked before. */
async function* withProgress(records: AsyncIterable<SourceRecord>, { chunks, size }: Source) {
	let progress: Progress | undefined;
	let count = 0;
	try {
		for await (const record of records) {
			progress ??= createProgress(size);
			yield record;
			progress.update(chunks.bytesRead ?? 0, ++count);
		}
	} finally {
		progress?.stop();
	}
}
