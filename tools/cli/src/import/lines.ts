/** The maximum length of a line, or of a record of several lines, in bytes. */
export const maxRecordBytes = 1_048_576;

export interface Line {
	/** Counted from 1. */
	number: number;
	/** Without its line ending. Undefined for a line that is too long. */
	bytes: Buffer | undefined;
}

/** The lines of a file, ended by LF or CRLF, in bounded memory. A line of more than `max` bytes is discarded. */
export async function* readLines(chunks: AsyncIterable<Buffer>, max = maxRecordBytes): AsyncGenerator<Line> {
	let number = 1;
	let pending: Buffer[] = [];
	let size = 0;
	let first = true;

	const take = (): Line => {
		let bytes: Buffer | undefined = size > max ? undefined : Buffer.concat(pending);
		if (bytes?.at(-1) === 0x0d) bytes = bytes.subarray(0, -1);
		// Skips a byte order mark.
		if (first && bytes?.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf]))) bytes = bytes.subarray(3);
		first = false;
		pending = [];
		size = 0;
		return { number: number++, bytes };
	};
	const add = (piece: Buffer) => {
		size += piece.length;
		if (size > max) pending = [];
		else pending.push(piece);
	};

	for await (const chunk of chunks) {
		let from = 0;
		for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, from)) {
			add(chunk.subarray(from, end));
			yield take();
			from = end + 1;
		}
		add(chunk.subarray(from));
	}
	if (size > 0) yield take();
}
