import { pipeline, Readable } from 'node:stream';
import type { Database } from '@contacts/common/database/database.js';
import { startDeadline } from '@contacts/common/database/deadline.js';
import { DatabaseError } from '@contacts/common/database/errors.js';
import { readConfirmed, type StatePoll } from '@contacts/common/database/state-poll.js';
import { Problem } from '@contacts/common/http/problems.js';
import {
	createCompressor,
	type Encoding,
	entityTagOf,
	type Representation,
} from '@contacts/common/http/representations.js';
import { type ListHead, readCompanyContactsInBatches, type StreamStart } from './company-contacts.sql.js';

/** A list that is read from the database while it is sent. */
interface ListStream extends Representation<Readable> {
	/** Send or destroy it: until then it occupies a connection. It fails when the list could not be read completely. */
	body: Readable;
	/** When the mirror was last found equal to the CRM, in milliseconds since the epoch; null if never. */
	syncedAt: number | null;
}

export interface StreamRequest {
	companyId: string | undefined;
	encoding: Encoding;
	/** Whether the client's key is still valid. It is asked before each batch. */
	isAuthorized: () => Promise<boolean> | boolean;
	/** Each project has one stream at a time. */
	projectId: number;
	/** When the request began, in milliseconds of `performance.now()`. */
	askedAt: number;
	/** It tells whether the list comes from the primary. */
	poll: StatePoll;
}

export interface StreamLimits {
	/** Maximum time in which a client reads nothing. */
	stallTimeoutMs: number;
	/** Maximum time in which a client reads the whole list. */
	totalTimeoutMs: number;
}

/** A list of 100 MB needs a rate of 330 KB a second. */
const defaultLimits: StreamLimits = { stallTimeoutMs: 10_000, totalTimeoutMs: 300_000 };

/**
 * Starts to read a list of any size. Memory holds only a few batches, and the reading follows the client's pace. If the client
 * disconnects, reads too slowly or loses its key, the reading ends and its connection is free again.
 *
 * @throws DatabaseError, DatabaseBusyError
 */
export async function streamList(
	database: Database,
	{ companyId, encoding, isAuthorized, projectId, askedAt, poll }: StreamRequest,
	{ stallTimeoutMs, totalTimeoutMs }: StreamLimits = defaultLimits,
): Promise<ListStream> {
	const deadline = startDeadline(database.deadlineMs, askedAt);
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
	// Fastify sees the error in the stream's state. Without this listener an error before sending would be uncaught.
	elements.on('error', () => undefined);
	const stop = (reason: string) => elements.destroy(new Error(`the client ${reason}`));
	const timer = setTimeout(stop, totalTimeoutMs, `did not read the list within ${totalTimeoutMs} ms`);

	/** Resolves when the buffer has room again, or the stream is destroyed. */
	async function room(): Promise<void> {
		const stalled = setTimeout(stop, stallTimeoutMs, `read nothing for ${stallTimeoutMs} ms`);
		await new Promise<void>((resolve) => {
			goOn = resolve;
		});
		clearTimeout(stalled);
	}

	/** Sends a batch. @returns whether to read another */
	async function send(batch: Buffer): Promise<boolean> {
		try {
			if (!(await isAuthorized()))
				elements.destroy(new Problem('unauthorized', { cause: new Error('the key was revoked') }));
		} catch (error) {
			elements.destroy(error as Error);
		}
		if (elements.destroyed) return false;
		if (!elements.push(batch)) await room();
		return !elements.destroyed;
	}

	/** Ends a reading whose list must not be sent, and waits until its connection is free. */
	let abandon = async () => {};

	/** Begins to read. What follows the head waits until `accept` is called. */
	async function begin(isOnNew: boolean): Promise<StreamStart & { accept(): void }> {
		await abandon();
		return new Promise((resolve, reject) => {
			let decide: (isAccepted: boolean) => void = () => undefined;
			const decision = new Promise<boolean>((resolveDecision) => {
				decide = resolveDecision;
			});
			let [sent, expected, isAbandoned] = [0, -1, false];
			const options = { reader: String(projectId), deadline, isOnNew };
			const reading = readCompanyContactsInBatches(database, companyId, options, async (batch, start) => {
				resolve({ ...start, accept: () => decide(true) });
				if (!(await decision)) return false;
				const lead = expected < 0 ? `{"count":${start.count},"data":[` : '';
				expected = start.count;
				const separator = sent > 0 ? ',' : '';
				sent += batch.length;
				return send(Buffer.concat([Buffer.from(lead + separator), join(batch)]));
			});
			const ended = reading.then(
				async () => {
					if (!(await decision) || elements.destroyed) return;
					// The database client ends a cursor without an error when the connection is lost between two batches.
					if (sent !== expected) {
						elements.destroy(new DatabaseError(new Error(`${sent} of ${expected} contacts were read`)));
					} else {
						elements.push(']}');
						elements.push(null);
					}
				},
				(error: Error) => {
					reject(error);
					if (!isAbandoned) elements.destroy(error);
				},
			);
			abandon = () => {
				isAbandoned = true;
				decide(false);
				return ended;
			};
		});
	}

	let list: Awaited<ReturnType<typeof begin>>;
	try {
		list = await readConfirmed(poll, begin, deadline);
		list.accept();
	} catch (error) {
		await abandon();
		elements.destroy();
		throw error;
	}

	const body = encoding === 'identity' ? elements : pipeline(elements, createCompressor[encoding](), () => undefined);
	// Its bytes are not known when it is sent, but the version of the table is.
	return { encoding, entityTag: entityTagOf(versionTag(list), encoding), body, syncedAt: list.syncedAt };
}

/** The same for every list of one version. */
export const versionTag = ({ epoch, version }: Pick<ListHead, 'epoch' | 'version'>) => `${epoch}-${version}`;

const comma = Buffer.from(',');

function join(elements: readonly Buffer[]): Buffer {
	return Buffer.concat(elements.flatMap((element, n) => (n === 0 ? [element] : [comma, element])));
}
