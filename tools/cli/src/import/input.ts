import type { ReadStream } from 'node:fs';
import { type FileHandle, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { CommandError } from '../errors.js';

/** What an import reads. */
export interface Input {
	/** Whether it can be read more than once. */
	isRereadable: boolean;
	/** Reads it from its beginning, until the import is interrupted. */
	read(signal: AbortSignal): AsyncGenerator<Buffer>;
	/** The part that was read since then. Undefined when its size is not known. */
	part(): number | undefined;
}

/**
 * Opens a file for some work, and closes it afterwards.
 *
 * @param path `-` for standard input
 * @throws CommandError when there is no such file
 */
export async function withInput<T>(path: string, stdin: Readable, work: (input: Input) => Promise<T>): Promise<T> {
	if (path === '-')
		return work({ isRereadable: false, read: (signal) => readUntil(signal, () => stdin), part: () => undefined });
	const file = await open(path).catch(({ code }: NodeJS.ErrnoException) => {
		throw new CommandError(code === 'ENOENT' ? `There is no file ${path}.` : `${path} can't be opened (${code}).`);
	});
	try {
		const stat = await file.stat();
		if (stat.isDirectory()) throw new CommandError(`${path} is a folder, not a file.`);
		return await work(inputOf(file, stat.isFile() ? stat.size : undefined));
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
	if (input.isRereadable) return work(input);
	const file = await openUnnamed();
	try {
		await writeFile(file, input.read(signal));
		return await work(inputOf(file, (await file.stat()).size));
	} catch (error) {
		throw signal.aborted ? signal.reason : error;
	} finally {
		await file.close();
	}
}

/** A stream that gets an aborted signal fails when nobody listens to it yet, which would end the process. */
async function* readUntil(signal: AbortSignal, open: () => Readable): AsyncGenerator<Buffer> {
	signal.throwIfAborted();
	yield* addAbortSignal(signal, open());
}

/** @param size undefined: it is no regular file */
function inputOf(file: FileHandle, size: number | undefined): Input {
	const isRereadable = size !== undefined;
	const options = { autoClose: false, ...(isRereadable ? { start: 0 } : {}) };
	let stream: ReadStream | undefined;
	return {
		isRereadable,
		read: (signal) =>
			readUntil(signal, () => {
				stream = file.createReadStream(options);
				return stream;
			}),
		part: () => (stream && size ? Math.min(1, stream.bytesRead / size) : undefined),
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
