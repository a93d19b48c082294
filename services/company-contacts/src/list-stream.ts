import { pipeline, Readable } from 'node:stream';
import type { KeyRing } from '@contacts/common/auth/key-ring.js';
import type { Project } from '@contacts/common/auth/key-ring.sql.js';
import type { Database } from '@contacts/common/database/database.js';
import { type Deadline, startDeadline } from '@contacts/common/database/deadline.js';
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

export interface StreamSource {
	database: Database;
	/** It tells whether the list comes from the primary. */
	poll: StatePoll;
	/** It is asked before each batch. */
	keyRing: Pick<KeyRing, 'confirm' | 'isLive'>;
}

export interface StreamRequest {
	companyId: string | undefined;
	encoding: Encoding;
	/** The client. A project has one stream at a time. */
	project: Project;
	deadline: Deadline;
}

/** Maximum time in which a client reads the whole list: one of 100 MB needs a rate of 330 KB a second. */
const maxStreamMs = 300_000;

/**
 * Starts to read a list of any size. Memory holds only a few batches, and the reading follows the client's pace. If the client
 * disconnects, reads too slowly or loses its key, the reading ends and its connection is free again.
 *
 * @throws DatabaseError, DatabaseBusyError
 */
export async function streamList(
	source: StreamSource,
	request: StreamRequest,
	timeoutMs = maxStreamMs,
): Promise<ListStream> {
	const { encoding, deadline } = request;
	/** Ends a reading whose list must not be sent, and waits until its connection is free. */
	let abandon = async () => {};
	const list = await readConfirmed(
		source.poll,
		async (isOnNew) => {
			await abandon();
			const { start, elements, ended } = read(source, request, timeoutMs, { deadline, isOnNew });
			abandon = () => {
				elements.destroy();
				return ended;
			};
			return { ...(await start), elements };
		},
		deadline,
	).catch(async (error) => {
		await abandon();
		throw error;
	});
	const body =
		encoding === 'identity' ? list.elements : pipeline(list.elements, createCompressor[encoding](), () => undefined);
	return { encoding, entityTag: streamTagOf(list, encoding), body, syncedAt: list.syncedAt };
}

/** The bytes of a stream are not known when it is sent, but the version of the table is. */
export function streamTagOf({ epoch, version }: Pick<ListHead, 'epoch' | 'version'>, encoding: Encoding): string {
	return entityTagOf(`${epoch}-${version}`, encoding);
}

interface Reading {
	/** What comes before the contacts. It rejects when the list can't be read. */
	start: Promise<StreamStart>;
	/** The body. Nothing is read beyond the first batch until somebody reads it. */
	elements: Readable;
	/** Resolves when the connection is free. */
	ended: Promise<void>;
}

const comma = Buffer.from(',');

function read(
	{ database, keyRing }: StreamSource,
	{ companyId, project }: StreamRequest,
	timeoutMs: number,
	options: { deadline: Deadline; isOnNew: boolean },
): Reading {
	let onDemand: () => void = () => undefined;
	/** Resolves when the buffer has room, or the stream is destroyed. */
	const nextDemand = () =>
		new Promise<void>((resolve) => {
			onDemand = resolve;
		});
	let demand = nextDemand();
	const elements = new Readable({
		highWaterMark: 256 * 1024,
		read: () => onDemand(),
		destroy(error, callback) {
			clearTimeout(timer);
			onDemand();
			callback(error);
		},
	});
	const timer = setTimeout(
		() => elements.destroy(new Error(`the client did not read the list within ${timeoutMs} ms`)),
		timeoutMs,
	);
	// Fastify sees the error in the stream's state. Without this listener an error before sending would be uncaught.
	elements.on('error', () => undefined);

	async function checkKey(): Promise<void> {
		await keyRing.confirm(startDeadline(database.deadlineMs));
		if (!keyRing.isLive(project)) throw new Problem('unauthorized', { cause: new Error('the key was revoked') });
	}

	let begin: (start: StreamStart) => void = () => undefined;
	let fail: (error: unknown) => void = () => undefined;
	const start = new Promise<StreamStart>((resolve, reject) => {
		[begin, fail] = [resolve, reject];
	});
	let [sent, count] = [0, -1];

	/** Sends a batch. @returns whether to read another */
	async function send(batch: Buffer[], head: StreamStart): Promise<boolean> {
		begin(head);
		await demand;
		await checkKey().catch((error) => elements.destroy(error));
		if (elements.destroyed) return false;
		const lead = count < 0 ? [Buffer.from(`{"count":${head.count},"data":[`)] : [];
		const separated = batch.flatMap((element, n) => (sent + n === 0 ? [element] : [comma, element]));
		count = head.count;
		sent += batch.length;
		if (!elements.push(Buffer.concat([...lead, ...separated]))) demand = nextDemand();
		return true;
	}

	const reader = { reader: String(project.id), ...options };
	const ended = readCompanyContactsInBatches(database, companyId, reader, send)
		.then(() => {
			// The database client ends a cursor without an error when the connection is lost between two batches.
			if (sent !== count) throw new DatabaseError(new Error(`${sent} of ${count} contacts were read`));
			elements.push(']}');
			elements.push(null);
		})
		.catch((error) => {
			fail(error);
			elements.destroy(error);
		});
	return { start, elements, ended };
}
