import { pipeline, Readable } from 'node:stream';
import type { Database } from '@contacts/common/database/database.js';
import { DatabaseError } from '@contacts/common/database/errors.js';
import type { StatePoll } from '@contacts/common/database/state-poll.js';
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
	/** Whether the client's key is still valid. A revocation ends the stream. */
	isAuthorized: () => boolean;
	/** Each project has a share of the concurrent streams. */
	projectId: number;
	/** When the request began, in milliseconds of `performance.now()`. */
	askedAt: number;
	/** It tells whether the list comes from the primary. */
	poll: Pick<StatePoll, 'state'>;
	/** Monotonic milliseconds. */
	clock: () => number;
}

export interface StreamLimits {
	/** Maximum time in which a client reads nothing. */
	stallTimeoutMs: number;
	/** Maximum time in which a client reads the whole list. */
	totalTimeoutMs: number;
	/** Minimum rate at which a client reads the list: bytes a second before compression, on average over a window. */
	minBytesPerSecond: number;
	/**
	 * The window of that average. Only the time in which the service waits for the client counts, so a slow database does not
	 * affect the rate. The first window is the grace period.
	 */
	paceWindowMs: number;
}

/**
 * A client slower than this could not finish within `totalTimeoutMs` anyway: the smallest list that is streamed by default
 * (LIST_STREAM_MEGABYTES) has about 30 MB. A window is three times `stallTimeoutMs`, so a single stall does not disconnect a
 * client.
 */
const defaultLimits: StreamLimits = {
	stallTimeoutMs: 10_000,
	totalTimeoutMs: 300_000,
	minBytesPerSecond: 100_000,
	paceWindowMs: 30_000,
};

/** How often a stream looks at its key. With the time that a revocation takes to arrive, it ends within a second. */
const authorizationIntervalMs = 250;

/**
 * Starts to read a list of any size. Memory holds only a few batches, and the reading follows the client's pace. If the client
 * disconnects, reads too slowly or loses its key, the reading ends and its connection is free again.
 *
 * @throws DatabaseError, DatabaseBusyError
 */
export async function streamList(
	database: Database,
	{ companyId, encoding, isAuthorized, projectId, askedAt, poll, clock }: StreamRequest,
	{ stallTimeoutMs, totalTimeoutMs, ...pace }: StreamLimits = defaultLimits,
): Promise<ListStream> {
	let goOn: () => void = () => undefined;
	const elements = new Readable({
		highWaterMark: 256 * 1024,
		read: () => goOn(),
		destroy(error, callback) {
			clearTimeout(timer);
			clearInterval(authorization);
			goOn();
			callback(error);
		},
	});
	// Fastify sees the error in the stream's state. Without this listener an error before sending would be uncaught.
	elements.on('error', () => undefined);
	const stop = (reason: string) => elements.destroy(new Error(`the client ${reason}`));
	const timer = setTimeout(stop, totalTimeoutMs, `did not read the list within ${totalTimeoutMs} ms`);
	const authorization = setInterval(() => {
		if (!isAuthorized()) elements.destroy(new Problem('unauthorized', { cause: new Error('the key was revoked') }));
	}, authorizationIntervalMs);
	const isTooSlow = watchPace(pace);

	/** Resolves when the buffer has room again, or the stream is destroyed. */
	async function room(): Promise<void> {
		const [startedAt, full] = [clock(), elements.readableLength];
		const stalled = setTimeout(stop, stallTimeoutMs, `read nothing for ${stallTimeoutMs} ms`);
		await new Promise<void>((resolve) => {
			goOn = resolve;
		});
		clearTimeout(stalled);
		if (!elements.destroyed && isTooSlow(clock() - startedAt, full - elements.readableLength)) {
			stop(`read less than ${pace.minBytesPerSecond} bytes a second`);
		}
	}

	const list = await new Promise<StreamStart>((begin, fail) => {
		let sent = 0;
		let expected = 0;
		let isFirst = true;
		const options = { reader: String(projectId), askedAt };
		const { state } = poll;
		const reading = readCompanyContactsInBatches(database, companyId, options, async (batch, start) => {
			if (start.server !== poll.state?.server || start.version < (state?.contacts?.version ?? 0)) {
				fail(new DatabaseError(new Error('the server that responds is not the primary')));
				return false;
			}
			begin(start);
			if (elements.destroyed) return false;
			expected = start.count;
			const lead = isFirst ? `{"count":${start.count},"data":[` : sent > 0 ? ',' : '';
			isFirst = false;
			sent += batch.length;
			if (!elements.push(Buffer.concat([Buffer.from(lead), join(batch)]))) await room();
			return !elements.destroyed;
		});
		reading.then(
			() => {
				if (elements.destroyed) return;
				// The database client ends a cursor without an error when the connection is lost between two batches.
				if (sent !== expected) {
					elements.destroy(new DatabaseError(new Error(`${sent} of ${expected} contacts were read`)));
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
	// Its bytes are not known when it is sent, but the version of the table is.
	return { encoding, entityTag: entityTagOf(versionTag(list), encoding), body, syncedAt: list.syncedAt };
}

/** The same for every list of one version. */
export const versionTag = ({ epoch, version }: Pick<ListHead, 'epoch' | 'version'>) => `${epoch}-${version}`;

/** @returns a function to call after each wait for the client; it returns whether the client was too slow in the window */
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
