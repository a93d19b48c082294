import { pipeline, Readable } from 'node:stream';
import type { Database } from '@contacts/common/database/database.js';
import { readCompanyContactsInBatches, type StreamHead } from './company-contacts.sql.js';
import { createCompressor, type Encoding, entityTagOf, type Representation } from './representations.js';

/** A list that is read from the database while it is sent. */
export interface ListStream extends Representation<Readable> {
	/** To be sent or destroyed: until then it keeps a connection. It fails when not all of the list could be read. */
	body: Readable;
	/** When the list last changed, in milliseconds since the epoch; null: it has always been empty. */
	changedAt: number | null;
}

export interface StreamRequest {
	companyId: string | undefined;
	encoding: Encoding;
	/** Each project has a share of the lists that are streamed at once. */
	projectId: number;
	/** Milliseconds that never go back. */
	clock: () => number;
}

export interface StreamLimits {
	/** A client must have read what was sent last within this time. */
	stallTimeoutMs: number;
	/** A client must have read everything within this time. */
	totalTimeoutMs: number;
	/** A client must read so many bytes of the list a second, before compression, on average over a window. */
	minBytesPerSecond: number;
	/**
	 * The window of that average. Only time in which the service waits for the client counts: it is not blamed for a slow
	 * database. The first window is the grace period.
	 */
	paceWindowMs: number;
}

/**
 * The rate ends nobody who could have come to an end: at less, the smallest list that is streamed by default
 * (LIST_STREAM_MEGABYTES, some 30 MB) takes longer than the 300 seconds that all of it may. A window is
 * three times the longest pause that is allowed, so that one pause ends nobody.
 */
const defaultLimits: StreamLimits = {
	stallTimeoutMs: 10_000,
	totalTimeoutMs: 300_000,
	minBytesPerSecond: 100_000,
	paceWindowMs: 30_000,
};

/**
 * Begins to read a list of any size: memory holds a few batches of it, and no more is read than the client takes. A client
 * that goes, or reads too slowly, ends the reading, and its connection is free again.
 *
 * @throws DatabaseError, DatabaseBusyError
 */
export async function streamList(
	database: Database,
	{ companyId, encoding, projectId, clock }: StreamRequest,
	{ stallTimeoutMs, totalTimeoutMs, ...pace }: StreamLimits = defaultLimits,
): Promise<ListStream> {
	let goOn: () => void = () => undefined;
	const elements = new Readable({
		highWaterMark: 256 * 1024,
		read: () => goOn(),
		destroy(error, callback) {
			clearTimeout(timer);
			goOn();
			callback(error);
		},
	});
	// Fastify hears of it from the stream's state; nobody listens before the answer is being sent.
	elements.on('error', () => undefined);
	const tooSlow = (limit: number) => elements.destroy(new Error(`the client did not take the list in ${limit} ms`));
	const timer = setTimeout(tooSlow, totalTimeoutMs, totalTimeoutMs);
	const isTooSlow = watchPace(pace);

	/** Resolves when there is room again, or nobody to read any more. */
	async function room(): Promise<void> {
		const [begun, full] = [clock(), elements.readableLength];
		const stalled = setTimeout(tooSlow, stallTimeoutMs, stallTimeoutMs);
		await new Promise<void>((resolve) => {
			goOn = resolve;
		});
		clearTimeout(stalled);
		if (!elements.destroyed && isTooSlow(clock() - begun, full - elements.readableLength)) {
			elements.destroy(new Error(`the client read less than ${pace.minBytesPerSecond} bytes a second`));
		}
	}

	const { head } = await new Promise<StreamHead>((begin, fail) => {
		let sent = 0;
		let expected = 0;
		const reading = readCompanyContactsInBatches(database, companyId, String(projectId), async (batch, head) => {
			begin(head);
			if (elements.destroyed) return false;
			expected = head.count;
			const lead = sent === 0 ? `{"count":${head.count},"data":[` : ',';
			sent += batch.length;
			if (!elements.push(Buffer.concat([Buffer.from(lead), join(batch)]))) await room();
			return !elements.destroyed;
		});
		reading.then(
			() => {
				if (elements.destroyed) return;
				// The client of the database ends a cursor in silence when its connection goes between two batches.
				if (sent !== expected) {
					elements.destroy(new Error(`${sent} of ${expected} contacts were read`));
				} else {
					elements.push(']}');
					elements.push(null);
				}
			},
			(error: Error) => {
				fail(error);
				elements.destroy(error);
			},
		);
	});

	const body = encoding === 'identity' ? elements : pipeline(elements, createCompressor[encoding](), () => undefined);
	const entityTag = entityTagOf(head?.listVersion ?? 'empty', encoding);
	return { encoding, entityTag, body, changedAt: head?.changedAt ?? null };
}

/** @returns what to call after each wait for the client: whether it has read too little in the window that ends with it */
function watchPace({ minBytesPerSecond, paceWindowMs }: Pick<StreamLimits, 'minBytesPerSecond' | 'paceWindowMs'>) {
	let [waitedMs, readBytes] = [0, 0];
	return (milliseconds: number, bytes: number): boolean => {
		waitedMs += milliseconds;
		readBytes += bytes;
		if (waitedMs < paceWindowMs) return false;
		const isSlow = readBytes < (waitedMs / 1000) * minBytesPerSecond;
		[waitedMs, readBytes] = [0, 0];
		return isSlow;
	};
}

const comma = Buffer.from(',');

function join(elements: readonly Buffer[]): Buffer {
	return Buffer.concat(elements.flatMap((element, n) => (n === 0 ? [element] : [comma, element])));
}
