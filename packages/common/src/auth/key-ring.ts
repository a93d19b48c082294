import { hash } from 'node:crypto';
import type { Database } from '../database/database.js';
import { withTimeout } from '../database/deadline.js';
import { classify, DatabaseError } from '../database/errors.js';
import type { StatePoll } from '../database/state-poll.js';
import {
	type Project,
	type RejectionReason,
	readKeyRing,
	type ServiceName,
	saveKeyUses,
	type UnrevokedKey,
} from './key-ring.sql.js';

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
	/** The live keys of the snapshot. */
	liveKeys(): UnrevokedKey[];
	/** Stores when each key was last used, as at regular intervals before. */
	stop(): Promise<void>;
}

export interface KeyRingOptions {
	/** It watches `watchedKeys`. */
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

interface LoadedKeys {
	version: unknown;
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
 * @throws DatabaseError when the database rejects this configuration. It is asked again after every other failure.
 */
export async function openKeyRing(options: KeyRingOptions): Promise<KeyRing> {
	const { poll, database, service, now = Date.now } = options;
	/** The last uses of keys that are not stored yet, in milliseconds since the epoch. */
	let uses = new Map<number, number>();
	let snapshot: LoadedKeys | undefined;

	const isLive = (key?: UnrevokedKey): key is UnrevokedKey => key !== undefined && key.expiresAt > now();

	poll.follow(async ({ watched: { keys: version }, generation }, sql) => {
		// After a change between the two reads, the next poll loads the keys again.
		if (version === snapshot?.version && generation === snapshot?.generation) return;
		const next: LoadedKeys = { version, generation, keys: new Map(), byId: new Map(), reasons: new Map() };
		for (const row of await readKeyRing(sql, service)) {
			const index = row.hash === null ? row.code : indexOf(row.code, row.hash);
			if (row.reason !== null) next.reasons.set(index, row.reason);
			else {
				next.keys.set(index, row);
				next.byId.set(row.keyId, row);
			}
		}
		snapshot = next;
	});

	/** Uses that can't be stored are kept for the next time, one entry for each key. No request waits for this. */
	async function flushUses(): Promise<void> {
		if (uses.size === 0) return;
		// A refused write would replace all connections, to find the primary. The poll's session keeps the setting with which it began.
		if (poll.state?.readOnly) {
			poll.reconnect();
			return;
		}
		const batch = uses;
		uses = new Map();
		await saveKeyUses(database, batch).catch(() => {
			uses = new Map([...batch, ...uses]);
		});
	}

	try {
		await poll.refresh(maxLoadMs);
	} catch (error) {
		if (classify(error).isPermanent) throw error;
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
			return snapshot?.keys.has(index) ? 'expired_key' : (ofKey ?? ofProject ?? 'unknown_project');
		},
		isLive: ({ keyId }) => isLive(snapshot?.byId.get(keyId)),
		liveKeys: () => [...(snapshot?.keys.values() ?? [])].filter(isLive),
		async stop() {
			clearInterval(usesTimer);
			// The last uses are not worth a longer wait.
			await withTimeout(flushUses(), 1000);
		},
	};
}

const indexOf = (projectCode: string, hash: string) => `${hash} ${projectCode}`;
