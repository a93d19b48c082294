import type { ReadStream } from 'node:fs';
import { type FileHandle, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { CommandError } from '../errors.js';

/** What an import reads. */
export interface Input {
	/** Reads it from its beginning. It throws the reason of the signal as soon as that is aborted. */
	read(signal: AbortSignal): AsyncGenerator<Buffer>;
	/** The share of it that was read since then. Undefined when the size is not known. */
	shareRead(): number | undefined;
	/** Undefined: it is no regular file, and can be read only once. */
	size: number | undefined;
}

/**
 * Opens a file for some work, and closes it afterwards.
 *
 * @param path `-` for standard input
 * @throws CommandError when there is no such file
 */
export async function withInput<T>(path: string, stdin: Readable, work: (input: Input) => Promise<T>): Promise<T> {
	if (path === '-') return work(inputOf(() => stdin));
	const file = await open(path).catch(({ code }: NodeJS.ErrnoException) => {
		throw new CommandError(code === 'ENOENT' ? `There is no file ${path}.` : `${path} can't be opened (${code}).`);
	});
	try {
		const stat = await file.stat();
		if (stat.isDirectory()) throw new CommandError(`${path} is a folder, not a file.`);
		return await work(inputOfFile(file, stat.isFile() ? stat.size : undefined));
	} finally {
		await file.close();
	}
}

/** Does some work with an input that can be read more than once: this one, or a private copy of it. */
export async function withRereadable<T>(
	input: Input,
	signal: AbortSignal,
	work: (input: Input) => Promise<T>,
): Promise<T> {
	if (input.size !== undefined) return work(input);
	const file = await openUnnamed();
	try {
		await writeFile(file, input.read(signal));
		return await work(inputOfFile(file, (await file.stat()).size));
	} finally {
		await file.close();
	}
}

const inputOfFile = (file: FileHandle, size?: number): Input =>
	inputOf(() => file.createReadStream({ autoClose: false, ...(size === undefined ? {} : { start: 0 }) }), size);

function inputOf(openStream: () => Readable & Partial<Pick<ReadStream, 'bytesRead'>>, size?: number): Input {
	let bytesRead = () => 0;
	return {
		size,
		shareRead: () => size && Math.min(1, bytesRead() / size),
		async *read(signal) {
			// A stream that gets an aborted signal fails when nobody listens to it yet, which would end the process.
			signal.throwIfAborted();
			const stream = openStream();
			bytesRead = () => stream.bytesRead ?? 0;
			try {
				yield* addAbortSignal(signal, stream);
			} catch (error) {
				throw signal.aborted ? signal.reason : error;
			}
		},
	};
}

/** A temporary file that has lost its name, so that nothing is left of it, whatever ends the process. */
async function openUnnamed(): Promise<FileHandle> {
	const folder = await mkdtemp(join(tmpdir(), 'contacts-'));
	try {
		return await open(join(folder, 'input'), 'wx+', 0o600);
	} finally {
		await rm(folder, { recursive: true });
	}
}
