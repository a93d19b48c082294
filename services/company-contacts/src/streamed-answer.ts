import { pipeline, Readable } from 'node:stream';
import type { Database } from '@contacts/common/database/database.js';
import { type ListHead, readCompanyContactsInBatches } from './company-contacts.sql.js';
import { createCompressor, type Encoding, entityTagOf } from './encodings.js';

/** A list that is read from the database while it is sent. */
export interface StreamedAnswer {
	encoding: Encoding;
	entityTag: string;
	/** To be sent or destroyed: until then it keeps a connection. It fails when not all of the list could be read. */
	body: Readable;
}

export interface StreamLimits {
	/** Milliseconds within which a client must have taken what was read last. */
	stall: number;
	/** Milliseconds within which a client must have taken everything. */
	total: number;
}

const usualLimits: StreamLimits = { stall: 10_000, total: 300_000 };

/**
 * Begins to read a list of any size: memory holds a few batches of it, and no more is read than the client takes. A client
 * that goes, or takes too little, ends the reading, and its connection is free again.
 *
 * @throws DatabaseError, DatabaseBusyError
 */
export async function streamAnswer(
	database: Database,
	companyId: string | undefined,
	encoding: Encoding,
	{ stall, total }: StreamLimits = usualLimits,
): Promise<StreamedAnswer> {
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
	const timer = setTimeout(tooSlow, total, total);

	/** Resolves when there is room again, or nobody to read any more. */
	async function room(): Promise<void> {
		const stalled = setTimeout(tooSlow, stall, stall);
		await new Promise<void>((resolve) => {
			goOn = resolve;
		});
		clearTimeout(stalled);
	}

	const head = await new Promise<ListHead>((begin, fail) => {
		let sent = 0;
		let expected = 0;
		const reading = readCompanyContactsInBatches(database, companyId, async (batch, head) => {
			if (elements.destroyed) return false;
			begin(head);
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

	const digest = `${head.count}-${head.version}`;
	const body = encoding === 'identity' ? elements : pipeline(elements, createCompressor[encoding](), () => undefined);
	return { encoding, entityTag: entityTagOf(digest, encoding), body };
}

const comma = Buffer.from(',');

function join(elements: readonly Buffer[]): Buffer {
	return Buffer.concat(elements.flatMap((element, n) => (n === 0 ? [element] : [comma, element])));
}
