import { once } from 'node:events';
import { createReadStream, type ReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { CommandError, UsageError } from '../errors.js';
import { createProgress } from '../progress.js';

interface SourceFile<Format> {
	format: Format;
	chunks: AsyncIterable<Buffer>;
	/** Shows how far the reading is. */
	onRecord(records: number): void;
}

/**
 * Opens a file for an import, shows the progress, and closes the file after the work.
 *
 * @param format default: the extension of the file name
 * @throws UsageError, CommandError when there is no such format or file
 */
export async function withSourceFile<Format extends string, T>(
	path: string,
	formats: readonly Format[],
	format: Format | undefined,
	work: (file: SourceFile<Format>) => Promise<T>,
): Promise<T> {
	const name = format ?? extname(path).slice(1).toLowerCase().replace('jsonl', 'ndjson');
	const known = formats.find((each) => each === name);
	if (known === undefined) {
		const endings = formats.map((each) => `.${each}`);
		throw new UsageError(
			`The file name does not end in ${endings.slice(0, -1).join(', ')} or ${endings.at(-1)}: say --format.`,
		);
	}
	const { chunks, size } = await openFile(path);
	const progress = createProgress(size);
	try {
		return await work({ format: known, chunks, onRecord: (count) => progress.update(chunks.bytesRead, count) });
	} finally {
		progress.stop();
		chunks.destroy();
	}
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
