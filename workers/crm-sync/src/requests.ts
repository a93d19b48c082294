import { Bitrix24Error } from './bitrix24/errors.js';
import { ConfigurationDiffersError, differencesOf, mirrorConfiguration } from './mirror-configuration.js';
import { IncompletePassError } from './pass.js';
import { endRequest, type SyncRequest, saveRequestProgress, takeRequest } from './requests.sql.js';
import { type Session, SessionLostError } from './session.js';
import { heldBackPrefix, readState } from './sync.sql.js';
import type { Outcome, Synchroniser, SynchroniserOptions } from './synchroniser.js';

/** The stored reason of a failed request. It contains no secret and no data of a contact. */
export type RequestError =
	| { reason: 'portal'; code: string; method: string; until: number | null }
	/** The mirror belongs to another configuration. */
	| { reason: 'configuration'; differences: string[] }
	/** The running synchroniser has another configuration than the command. */
	| { reason: 'other-synchroniser'; differences: string[] }
	| { reason: 'incomplete'; detail: string }
	| { reason: 'unexpected'; name: string };

/** `heldBack`: the deletions that need a confirmation. */
export type RequestResult = { outcome: Outcome; heldBack: string | null } | { error: RequestError };

/** Performs a request, in the process of the command or of the synchroniser. */
export async function perform(
	synchroniser: Synchroniser,
	session: Session,
	{ kind, bitrix_id: bitrixId, confirm_mass_delete: confirmMassDelete }: SyncRequest,
): Promise<RequestResult> {
	if (kind === 'dry-run') return { outcome: await synchroniser.dryRun(), heldBack: null };
	if (bitrixId !== null) return { outcome: await synchroniser.contact(bitrixId), heldBack: null };
	const { full_begun_at: interrupted } = await session.run(readState);
	const outcome = await synchroniser.pass({ full: kind === 'full', confirmMassDelete });
	if (kind === 'pass' && interrupted !== null) {
		// The pass continued from its cursor. What has changed before it since that pass began was not read again.
		const changes = await synchroniser.pass();
		for (const count of ['seen', 'created', 'changed', 'deleted', 'requests'] as const)
			outcome[count] += changes[count];
	}
	const { alarm } = await session.run(readState);
	return { outcome, heldBack: alarm?.startsWith(heldBackPrefix) ? alarm.slice(heldBackPrefix.length) : null };
}

/** @returns undefined for an error that the request did not cause, such as a lost connection */
export function toRequestError(error: unknown): RequestError | undefined {
	if (error instanceof Bitrix24Error) {
		const { code, method, until = null } = error;
		return { reason: 'portal', code, method, until };
	}
	if (error instanceof ConfigurationDiffersError) return { reason: 'configuration', differences: error.differences };
	if (error instanceof IncompletePassError) return { reason: 'incomplete', detail: error.message };
	return undefined;
}

interface RequestQueue {
	/** Saves the progress of a request for the command that waits. */
	onProgress(seen: number, total: number | undefined): void;
	/**
	 * Performs the oldest waiting request.
	 *
	 * @returns undefined if there is none
	 * @throws SessionLostError, or the reason of an abort: the request stays for the next synchroniser or for the command itself
	 */
	serveNext(synchroniser: Synchroniser): Promise<{ kind: SyncRequest['kind']; isDone: boolean } | undefined>;
}

const progressIntervalMs = 1000;

/** Handles the requests of commands in the running synchroniser. */
export function createRequestQueue(options: SynchroniserOptions & { signal: AbortSignal }): RequestQueue {
	const { session, clock, logger, signal } = options;
	const own = mirrorConfiguration(options.config);
	let current: { id: string; savedAt: number } | undefined;

	return {
		onProgress(seen, total) {
			if (current === undefined || clock.now() - current.savedAt < progressIntervalMs) return;
			current.savedAt = clock.now();
			const { id } = current;
			// Not critical: the pass itself notices a lost connection.
			session.run((sql) => saveRequestProgress(sql, id, seen, total ?? null)).catch(() => undefined);
		},
		async serveNext(synchroniser) {
			const request = await session.run(takeRequest);
			if (request === undefined) return undefined;
			const { id, kind } = request;
			const end = (result: RequestResult) => session.run((sql) => endRequest(sql, id, result));
			const differences = differencesOf(own, request.configuration);
			if (differences.length > 0) {
				await end({ error: { reason: 'other-synchroniser', differences } });
				return { kind, isDone: false };
			}
			current = { id, savedAt: Number.NEGATIVE_INFINITY };
			try {
				const result = await perform(synchroniser, session, request);
				logger.info({ request: kind, ...result }, 'request done');
				await end(result);
				return { kind, isDone: true };
			} catch (error) {
				if (error instanceof SessionLostError || signal.aborted) throw error;
				logger.error({ err: error, request: kind }, 'request failed');
				const name = error instanceof Error ? error.name : 'unknown';
				await end({ error: toRequestError(error) ?? { reason: 'unexpected', name } });
				return { kind, isDone: false };
			} finally {
				current = undefined;
			}
		},
	};
}
