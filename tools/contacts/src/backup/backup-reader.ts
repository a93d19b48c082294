import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { CommandError } from '../errors.js';
import { type Line, readLines } from '../import/lines.js';
import { createProgress } from '../progress.js';
import {
	type BackupKey,
	checkKey,
	createSeal,
	DamagedBackupError,
	endLine,
	endOfRows,
	type Header,
	isSame,
	maxRowBytes,
	parseHeader,
	summaryOf,
} from './format.js';

/** The approximate size of a piece of rows, in bytes. */
const pieceBytes = 65_536;

/** A backup, read from its beginning to its end. */
export interface BackupReader {
	header: Header;
	/**
	 * The rows of the next table.
	 *
	 * @throws DamagedBackupError when their number differs from the written one, or one is too long
	 */
	rows(): AsyncGenerator<Buffer>;
	/** @throws DamagedBackupError when the rest is damaged, or the hash of everything differs */
	verifyRest(): Promise<void>;
}

/**
 * Unpacks a backup and lets `work` read it, with progress.
 *
 * @throws DamagedBackupError, CommandError when it differs from what was written
 */
export async function readBackup(
	source: Readable,
	key: BackupKey | undefined,
	work: (backup: BackupReader) => Promise<void>,
): Promise<Header> {
	try {
		return await pipeline(source, createGunzip(), async (chunks: AsyncIterable<Buffer>) => {
			const lines = readLines(chunks, maxRowBytes);
			const first: Buffer = (await lines.next()).value?.bytes ?? Buffer.of();
			const header = parseHeader(first);
			checkKey(header, key);
			const progress = createProgress(summaryOf(header).rows);
			try {
				await work(createReader(header, first, lines, key, (rows) => progress.update(rows, rows)));
			} finally {
				progress.stop();
			}
			return header;
		});
	} catch (error) {
		const { code, syscall } = error as NodeJS.ErrnoException;
		if (code === 'Z_BUF_ERROR') throw new DamagedBackupError('it ends too early');
		if (code?.startsWith('Z_')) throw new DamagedBackupError('it can’t be unpacked');
		if (syscall === 'read') throw new CommandError(`The backup can't be read (${code}); nothing was changed.`);
		throw error;
	}
}

function createReader(
	header: Header,
	first: Buffer,
	lines: AsyncGenerator<Line>,
	key: BackupKey | undefined,
	onRows: (rows: number) => void,
): BackupReader {
	const seal = createSeal(key).update(first).update('\n');
	let read = 0;
	let table = 0;
	let rowsOfTable = 0;
	let lastReader = Promise.resolve();

	/** @returns undefined at the end of the file */
	async function next(): Promise<Buffer | undefined> {
		const { value, done } = await lines.next();
		if (done) return undefined;
		if (value.bytes === undefined) throw new DamagedBackupError(`a row is longer than ${maxRowBytes / 1024 ** 2} MiB`);
		return value.bytes;
	}

	/**
	 * Continues where the last reader stopped, once it has stopped: a stream that fails may end before the reader it was fed by,
	 * and two at once would mix up the rows.
	 */
	async function* rows(): AsyncGenerator<Buffer> {
		const before = lastReader;
		let stopped: () => void = () => undefined;
		lastReader = new Promise((resolve) => {
			stopped = resolve;
		});
		try {
			await before;
			yield* rowsOfOne();
		} finally {
			stopped();
		}
	}

	async function* rowsOfOne(): AsyncGenerator<Buffer> {
		const { name = '', rows: expected = 0 } = header.tables[table] ?? {};
		for (let isEnd = false; !isEnd; ) {
			const piece: Buffer[] = [];
			for (let bytes = 0; bytes < pieceBytes && !isEnd; ) {
				const line = await next();
				if (line === undefined) throw new DamagedBackupError('it ends too early');
				isEnd = line.length === endOfRows.length && line.toString() === endOfRows;
				if (isEnd) break;
				piece.push(line, newline);
				bytes += line.length + 1;
				rowsOfTable++;
			}
			const whole = Buffer.concat(piece);
			seal.update(whole);
			onRows(read + rowsOfTable);
			if (isEnd) {
				seal.update(`${endOfRows}\n`);
				if (rowsOfTable !== expected) throw new DamagedBackupError(`${name} has not as many rows as were written`);
				table++;
				read += rowsOfTable;
				rowsOfTable = 0;
			}
			if (whole.length > 0) yield whole;
		}
	}

	return {
		header,
		rows,
		async verifyRest() {
			while (table < header.tables.length) for await (const piece of rows()) void piece;
			const last = await next();
			if (last === undefined) throw new DamagedBackupError('it ends too early');
			if (!isSame(last, endLine(seal, key))) throw new DamagedBackupError('its content is not what was written');
			if ((await next()) !== undefined) throw new DamagedBackupError('something follows its end');
		},
	};
}

const newline = Buffer.from('\n');
