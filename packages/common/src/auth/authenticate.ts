import { hash } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Database } from '../database/database.js';
import { DatabaseError } from '../database/errors.js';
import type { StatePoll } from '../database/state-poll.js';
import { Problem } from '../http/problems.js';
import { areMalformed } from '../http/server.js';
import { withDeadline } from '../process/with-deadline.js';
import { maxKeyLength } from './api-key.js';
import {
	type Project,
	type RejectionReason,
	readKeyRing,
	type ServiceName,
	saveKeyUses,
	type UnrevokedKey,
} from './key-ring.sql.js';

declare module 'fastify' {
	interface FastifyRequest {
		/** The caller. It is set for every request that passed authentication. */
		project: Project;
		/**
		 * When the request was complete and its parameters were checked, in milliseconds of `performance.now()`. The deadline
		 * of its response counts from then.
		 */
		askedAt: number;
	}
}

interface AuthenticateOptions {
	keyRing: KeyRing;
	/** Called before a request is rejected. An error that it throws replaces the 401. */
	onFailure?: (request: FastifyRequest) => void;
}

/**
 * Rejects requests without valid credentials in the query string, in the scope that registers it. It runs before the body
 * is read and any other parameter is checked. The response is the same for all kinds of wrong credentials. Only the log has
 * the reason.
 */
export const authenticate = fp<AuthenticateOptions>(async (scope, { keyRing, onFailure = () => undefined }) => {
	if (!scope.hasRequestDecorator('project')) {
		scope.decorateRequest('project');
		scope.decorateRequest('askedAt', 0);
	}
	scope.addHook('onRequest', (request, _reply, done) => {
		const project = findProject(request, keyRing);
		if (project === undefined) {
			onFailure(request);
			throw unauthorized(request, keyRing);
		}
		request.project = project;
		done();
	});
	// A body may take seconds to arrive, and the key may have been revoked meanwhile.
	scope.addHook('preValidation', (request, _reply, done) => {
		done(keyRing.isLive(request.project) ? undefined : unauthorized(request, keyRing));
	});
	// Last, so that a request with a wrong parameter is refused also while the keys can't be confirmed.
	scope.addHook('preHandler', (request, _reply, done) => {
		request.askedAt = performance.now();
		if (keyRing.isConfirmed) return done();
		keyRing
			.confirm(request.askedAt, request.askedAt + maxConfirmMs)
			.then(() => done(keyRing.isLive(request.project) ? undefined : unauthorized(request, keyRing)), done);
	});
});

/** The maximum time for which a request waits for its key to be confirmed. It leaves time for the response. */
const maxConfirmMs = 3000;

function findProject(request: FastifyRequest, keyRing: KeyRing): Project | undefined {
	// A repeated parameter arrives as an array.
	const { project, api_key: key } = request.query as Record<string, unknown>;
	if (typeof project !== 'string' || typeof key !== 'string') return undefined;
	if (hasMalformedCredential(request)) return undefined;
	if (project === '' || key === '' || key.length > maxKeyLength) return undefined;
	return keyRing.find(project, key);
}

function unauthorized(request: FastifyRequest, keyRing: KeyRing): Problem {
	return new Problem('unauthorized', { reason: findReason(request, keyRing) });
}

function findReason(request: FastifyRequest, keyRing: KeyRing): RejectionReason {
	const { project, api_key: key } = request.query as Record<string, unknown>;
	if (project === undefined || key === undefined) return 'missing_credential';
	if (typeof project !== 'string' || typeof key !== 'string') return 'repeated_credential';
	if (project === '' || key === '') return 'empty_credential';
	if (hasMalformedCredential(request)) return 'malformed_credential';
	return keyRing.findReason(project, key);
}

const credentials = new Set(['project', 'api_key']);

function hasMalformedCredential({ url }: FastifyRequest): boolean {
	return areMalformed(credentials, url);
}

export interface KeyRing {
	/**
	 * Returns the project of this key, or undefined. It needs no query, and does the same work for every kind of wrong
	 * credentials.
	 *
	 * @throws DatabaseError when no snapshot was loaded yet, so that no key can be checked.
	 */
	find(projectCode: string, key: string): Project | undefined;
	/** Why `find` returns undefined. It also does the same work for every kind of wrong credentials. */
	findReason(projectCode: string, key: string): RejectionReason;
	/** Whether the key of this project was not revoked when the keys were last read, and has not expired. */
	isLive(project: Project): boolean;
	/** Whether the keys in memory were those of the database within the last second. */
	readonly isConfirmed: boolean;
	/**
	 * Waits until they were those of the database at most a second before the caller asked.
	 *
	 * @throws DatabaseError, DatabaseBusyError: see `StatePoll.confirm`
	 */
	confirm(askedAt: number, until: number): Promise<unknown>;
	/** The same with a poll that begins after this call, at once. */
	refresh(): Promise<unknown>;
	/** When the snapshot was last known to be current, in milliseconds since the epoch; undefined before the first. */
	readonly refreshedAt: number | undefined;
	/** The projects that have a live key, by the snapshot. */
	projectCodes(): Set<string>;
	/** Stores when each key was last used. This also happens at regular intervals. */
	flushUses(): Promise<void>;
	/** Stores the last uses of keys, and does so no more. */
	stop(): Promise<void>;
}

export interface KeyRingOptions {
	/** It watches the keys. */
	poll: StatePoll;
	/** Stores the uses of keys. */
	database: Database;
	service: ServiceName;
	/** Milliseconds since the epoch. */
	now?: () => number;
}

/** The interval at which the uses of keys are stored. `contacts key list` may lag by this. */
const flushIntervalMs = 30_000;

/** The maximum wait for a load. A service starts without keys if the database can't be reached. */
const maxLoadMs = 4000;

interface Snapshot {
	version: string | undefined;
	/** See `DatabaseState`. */
	generation: number;
	keys: Map<string, UnrevokedKey>;
	byId: Map<number, UnrevokedKey>;
	/** Why a key is rejected; by the project's code alone, why every other key of the project is. */
	reasons: Map<string, RejectionReason>;
}

/**
 * Opens the snapshot of all keys, which every process keeps in memory. It is loaded at once, and again in each poll that
 * finds another version, another server, or itself on another connection.
 *
 * @throws DatabaseError when the first load fails, unless `isTemporary` returns true for it: then it is retried.
 */
export async function openKeyRing(options: KeyRingOptions, isTemporary: (error: unknown) => boolean): Promise<KeyRing> {
	const { poll, database, service, now = Date.now } = options;
	/** The last uses of keys that are not stored yet, in milliseconds since the epoch. */
	let uses = new Map<number, number>();
	let snapshot: Snapshot | undefined;
	let refreshedAt: number | undefined;

	const isLive = (key?: UnrevokedKey): key is UnrevokedKey => key !== undefined && key.expiresAt > now();

	poll.follow(async ({ keys: version, generation, foundAt }, sql) => {
		// After a change between the two reads, the next poll loads the keys again.
		if (version !== snapshot?.version || generation !== snapshot?.generation) {
			const { keys, rejections } = await readKeyRing(sql, service);
			snapshot = {
				version,
				generation,
				keys: new Map(keys.map((key) => [indexOf(key.code, key.hash), key])),
				byId: new Map(keys.map((key) => [key.keyId, key])),
				reasons: new Map(
					rejections.map(({ code, hash, reason }) => [hash === null ? code : indexOf(code, hash), reason]),
				),
			};
		}
		refreshedAt = foundAt;
	});

	/** Uses that can't be stored are kept for the next time, one entry for each key. No request waits for this. */
	async function flushUses(): Promise<void> {
		if (uses.size === 0) return;
		const batch = uses;
		uses = new Map();
		await saveKeyUses(database, batch).catch(() => {
			uses = new Map([...batch, ...uses]);
		});
	}

	try {
		await poll.refresh(performance.now() + maxLoadMs);
	} catch (error) {
		if (!isTemporary(error)) throw error;
	}
	const usesTimer = setInterval(flushUses, flushIntervalMs).unref();

	return {
		find(projectCode, key) {
			if (snapshot === undefined) throw new DatabaseError('no keys could be loaded yet');
			const found = snapshot.keys.get(indexOf(projectCode, hash('sha256', key, 'base64')));
			if (!isLive(found)) return undefined;
			uses.set(found.keyId, now());
			return found;
		},
		findReason(projectCode, key) {
			const index = indexOf(projectCode, hash('sha256', key, 'base64'));
			const [ofKey, ofProject] = [snapshot?.reasons.get(index), snapshot?.reasons.get(projectCode)];
			const isKnown = snapshot?.keys.has(index);
			return isKnown ? 'expired_key' : (ofKey ?? ofProject ?? 'unknown_project');
		},
		isLive: ({ keyId }) => isLive(snapshot?.byId.get(keyId)),
		get isConfirmed() {
			return poll.confirmed !== undefined;
		},
		confirm: poll.confirm,
		refresh: () => poll.refresh(performance.now() + maxLoadMs),
		get refreshedAt() {
			return refreshedAt;
		},
		projectCodes: () => new Set([...(snapshot?.keys.values() ?? [])].filter(isLive).map(({ code }) => code)),
		flushUses,
		async stop() {
			clearInterval(usesTimer);
			// The last uses are not worth a longer wait.
			await withDeadline(flushUses(), 1000);
		},
	};
}

const indexOf = (projectCode: string, hash: string) => `${hash} ${projectCode}`;
