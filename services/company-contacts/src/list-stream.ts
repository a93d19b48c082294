import { pipeline, Readable } from 'node:stream';
import type { KeyRing } from '@contacts/common/auth/key-ring.js';
import type { Project } from '@contacts/common/auth/key-ring.sql.js';
import type { Database } from '@contacts/common/database/database.js';
import type { Deadline } from '@contacts/common/database/deadline.js';
import { DatabaseError } from '@contacts/common/database/errors.js';
import type { StatePoll } from '@contacts/common/database/state-poll.js';
import { Problem } from '@contacts/common/http/problems.js';
import {
	createCompressor,
	type Encoding,
	entityTagOf,
	type Representation,
} from '@contacts/common/http/representations.js';
import { type ListBatch, type ListHead, readCompanyContactsInBatches } from './company-contacts.sql.js';
import { readConfirmed } from './contacts-state.sql.js';

/** A list that is read from the database while it is sent. */
interface ListStream extends Representation<Readable> {
	/** Send or destroy it: until then it occupies a connection. It fails when the list could not be read completely. */
	body: Readable;
	/** When the mirror was last found equal to the CRM, in milliseconds since the epoch; null if never. */
	syncedAt: number | null;
}

export interface StreamSource {
	database: Database;
	/** It tells whether the list comes from the primary, and is asked before each batch. */
	poll: StatePoll;
	keyRing: Pick<KeyRing, 'isLive'>;
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
	{ database, poll, keyRing }: StreamSource,
	{ companyId, encoding, project, deadline }: StreamRequest,
	timeoutMs = maxStreamMs,
): Promise<ListStream> {
	let batches: AsyncGenerator<ListBatch, void> | undefined;
	const list = await readConfirmed(
		poll,
		async (isOnNew) => {
			await batches?.return();
			const options = { reader: String(project.id), deadline, isOnNew };
			const rest = readCompanyContactsInBatches(database, companyId, options);
			batches = rest;
			// It has a start, also if there are no contacts.
			const first = (await rest.next()).value as ListBatch;
			return { ...first.start, first, rest };
		},
		deadline,
	).catch(async (error) => {
		await batches?.return();
		throw error;
	});

	async function checkKey(): Promise<void> {
		await poll.confirm(database.deadlineMs);
		if (!keyRing.isLive(project)) throw new Problem('unauthorized', { cause: new Error('the key was revoked') });
	}

	const elements = Readable.from(bytesOf(list.first, list.rest, checkKey), {
		objectMode: false,
		highWaterMark: 256 * 1024,
	});
	const timer = setTimeout(
		() => elements.destroy(new Error(`the client did not read the list within ${timeoutMs} ms`)),
		timeoutMs,
	);
	// Fastify sees the error in the stream's state. Without this listener an error before sending would be uncaught.
	elements.on('error', () => undefined);
	// Also of a list that nobody has begun to read, whose generator has not begun either.
	elements.once('close', () => {
		clearTimeout(timer);
		void list.rest.return();
	});
	const body = encoding === 'identity' ? elements : pipeline(elements, createCompressor[encoding](), () => undefined);
	return { encoding, entityTag: streamTagOf(list, encoding), body, syncedAt: list.syncedAt };
}

/** The bytes of a stream are not known when it is sent, but the version of the table is. */
export function streamTagOf({ epoch, version }: Pick<ListHead, 'epoch' | 'version'>, encoding: Encoding): string {
	return entityTagOf(`${epoch}-${version}`, encoding);
}

const comma = Buffer.from(',');

/** The body, batch by batch. Nothing is read beyond the first batch until somebody reads it. */
async function* bytesOf(
	first: ListBatch,
	rest: AsyncGenerator<ListBatch, void>,
	checkKey: () => Promise<void>,
): AsyncGenerator<Buffer, void> {
	const { count } = first.start;
	let sent = 0;
	for (let batch: ListBatch | undefined = first; batch; batch = (await rest.next()).value ?? undefined) {
		await checkKey();
		const lead = batch === first ? [Buffer.from(`{"count":${count},"data":[`)] : [];
		const separated = batch.elements.flatMap((element, n) => (sent + n === 0 ? [element] : [comma, element]));
		sent += batch.elements.length;
		yield Buffer.concat([...lead, ...separated]);
	}
	// The database client ends a cursor without an error when the connection is lost between two batches.
	if (sent !== count) throw new DatabaseError(new Error(`${sent} of ${count} contacts were read`));
	yield Buffer.from(']}');
}
