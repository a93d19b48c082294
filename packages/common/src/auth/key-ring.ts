import { hash } from 'node:crypto';
import type { Database } from '../database/database.js';
import { DatabaseError } from '../database/errors.js';
import { withDeadline } from '../database/with-deadline.js';
import {
	type Project,
	type RejectionReason,
	readKeyRing,
	readKeyRingVersion,
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
	/** Reads the version, and loads the keys again if it has changed. */
	refresh(): Promise<void>;
	/** When the snapshot was last known to be current, in milliseconds since the epoch; undefined before the first. */
	readonly refreshedAt: number | undefined;
	/** The live keys of the snapshot. */
	liveKeys(): readonly UnrevokedKey[];
	/** Stores when each key was last used. This also happens at regular intervals. */
	flushUses(): Promise<void>;
	/** Stops refreshing, and stores the last uses of keys. */
	stop(): Promise<void>;
}

export interface KeyRingOptions {
	database: Database;
	service: ServiceName;
	/** Called once when refreshing starts to fail, and once when it works again. */
	onStateChange?: (error: unknown) => void;
	/** Milliseconds between two checks of the version. A notification arrives sooner; the check is for lost notifications. */
	intervalMs?: number;
	/** Milliseconds since the epoch. */
	now?: () => number;
}

/** The interval at which the uses of keys are stored. `contacts key list` may lag by this. */
const flushIntervalMs = 30_000;

interface Snapshot {
	version: string;
	/** The number of changes that had been reported when it was read. */
	reports: number;
	keys: Map<string, UnrevokedKey>;
	byId: Map<number, UnrevokedKey>;
	/** Why a key is rejected; by the project's code alone, why every other key of the project is. */
	reasons: Map<string, RejectionReason>;
}

/**
 * Opens the snapshot of all keys, which every process keeps in memory. It is loaded at once, and again after a
 * notification, after a reconnection of the listener, and when the check every `intervalMs` finds a new version.
 *
 * @throws DatabaseError when the first load fails, unless `isTemporary` returns true for it: then it is retried.
 */
export async function openKeyRing(options: KeyRingOptions, isTemporary: (error: unknown) => boolean): Promise<KeyRing> {
	const { database, service, intervalMs = 400, now = Date.now, onStateChange = () => undefined } = options;
	/** The last uses of keys that are not stored yet, in milliseconds since the epoch. */
	let uses = new Map<number, number>();
	let snapshot: Snapshot | undefined;
	let reports = 0;
	let refreshedAt: number | undefined;
	let failing = false;
	let refreshing: Promise<void> | undefined;
	let again = false;
	let stopped = false;

	const isLive = (key?: UnrevokedKey): key is UnrevokedKey => key !== undefined && key.expiresAt > now();

	async function load(): Promise<void> {
		const [startedAt, reported] = [now(), reports];
		// Reads the version first: after a change between the two reads, the next check loads the keys again.
		const version = await readKeyRingVersion(database);
		if (version !== snapshot?.version || reported !== snapshot.reports) {
			const { keys, rejections } = await readKeyRing(database, service);
			snapshot = {
				version,
				reports: reported,
				keys: new Map(keys.map((key) => [indexOf(key.code, key.hash), key])),
				byId: new Map(keys.map((key) => [key.keyId, key])),
				reasons: new Map(
					rejections.map(({ code, hash, reason }) => [hash === null ? code : indexOf(code, hash), reason]),
				),
			};
		}
		refreshedAt = startedAt;
	}

	/** Runs one refresh at a time. Calls during a refresh share one further refresh, which starts after it. */
	function refresh(): Promise<void> {
		if (refreshing !== undefined) {
			again = true;
			return refreshing;
		}
		refreshing = (async () => {
			do {
				again = false;
				await load();
			} while (again);
		})().finally(() => {
			refreshing = undefined;
		});
		return refreshing;
	}

	async function refreshQuietly(): Promise<void> {
		try {
			await refresh();
			if (failing) onStateChange(undefined);
			failing = false;
		} catch (error) {
			if (!failing && !stopped) onStateChange(error);
			failing = true;
		}
	}

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
		await refresh();
	} catch (error) {
		if (!isTemporary(error)) throw error;
		failing = true;
		onStateChange(error);
	}
	const timer = setInterval(refreshQuietly, intervalMs).unref();
	const usesTimer = setInterval(flushUses, flushIntervalMs).unref();
	const changes = database.listenForChanges('key_ring_changed', () => {
		// After a disconnection the server may be another one, with other keys of the same version.
		reports++;
		void refreshQuietly();
	});

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
		refresh,
		get refreshedAt() {
			return refreshedAt;
		},
		liveKeys: () => [...(snapshot?.keys.values() ?? [])].filter(isLive),
		flushUses,
		async stop() {
			stopped = true;
			for (const each of [timer, usesTimer]) clearInterval(each);
			changes.stop();
			// The last uses are not worth a longer wait.
			await withDeadline(flushUses(), 1000);
		},
	};
}

const indexOf = (projectCode: string, hash: string) => `${hash} ${projectCode}`;
