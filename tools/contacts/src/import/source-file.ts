import { open } from 'node:fs/promises';
import { extname } from 'node:path';
import { CommandError, UsageError } from '../errors.js';
import { createProgress } from '../progress.js';

export interface SourceFile<Format> {
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
	const file = await open(path).catch((error: NodeJS.ErrnoException) => {
		throw new CommandError(
			error.code === 'ENOENT' ? `There is no file ${path}.` : `${path} can't be read (${error.code}).`,
		);
	});
	try {
		const stats = await file.stat();
		if (stats.isDirectory()) throw new CommandError(`${path} is a folder.`);
		const progress = createProgress(stats.size);
		let bytes = 0;
		async function* chunks(): AsyncGenerator<Buffer> {
			for await (const chunk of file.createReadStream({ autoClose: false })) {
				bytes += chunk.length;
				yield chunk;
			}
		}
		try {
			return await work({ format: known, chunks: chunks(), onRecord: (count) => progress.update(bytes, count) });
		} finally {
			progress.stop();
		}
	} finally {
		await file.close();
	}
}
