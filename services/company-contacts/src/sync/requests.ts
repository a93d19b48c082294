import type { FastifyBaseLogger } from 'fastify';
import { Bitrix24Error } from './bitrix24/errors.js';
import type { Clock } from './clock.js';
import type { CrmConfig } from './config.js';
import { ConfigurationDiffersError, differencesOf, mirrorConfiguration } from './mirror-configuration.js';
import { IncompletePass } from './pass.js';
import { endRequest, type SyncRequest, saveRequestProgress, takeRequest } from './requests.sql.js';
import { type Session, SessionLost } from './session.js';
import { readState } from './sync.sql.js';
import type { Outcome, Synchroniser } from './synchroniser.js';

/** Why a request was not done, in a form that the database keeps. It holds neither a secret nor anything of a contact. */
export type RequestError =
	| { reason: 'portal'; code: string; method: string; until: number | null }
	/** The mirror was made with another configuration than that of whoever did the work. */
	| { reason: 'configuration'; differences: string[] }
	/** The synchroniser that runs has another configuration than the command. */
	| { reason: 'other-synchroniser'; differences: string[] }
	| { reason: 'incomplete'; detail: string }
	| { reason: 'unexpected'; name: string };

/** `heldBack`: what the pass did not do, because somebody has to confirm it. */
export type RequestResult = { outcome: Outcome; heldBack: string | null } | { error: RequestError };

/** Does what was asked for, in the process of the command or in that of the synchroniser. */
export async function perform(
	synchroniser: Synchroniser,
	session: Session,
	{ kind, bitrix_id: bitrixId, confirm_mass_delete: confirmMassDelete }: SyncRequest,
): Promise<RequestResult> {
	if (kind === 'dry-run') return { outcome: await synchroniser.dryRun(), heldBack: null };
	if (bitrixId !== null) return { outcome: await synchroniser.contact(bitrixId), heldBack: null };
	const outcome = await synchroniser.pass({ full: kind === 'full', confirmMassDelete });
	const { alarm } = await session.run(readState);
	return { outcome, heldBack: alarm?.startsWith('mass_delete: ') ? alarm.slice('mass_delete: '.length) : null };
}

/** @returns undefined for an error that says nothing of the request, such as a lost connection */
export function toRequestError(error: unknown): RequestError | undefined {
	if (error instanceof Bitrix24Error) {
		const { code, method, until = null } = error;
		return { reason: 'portal', code, method, until };
	}
	if (error instanceof ConfigurationDiffersError) return { reason: 'configuration', differences: error.differences };
	if (error instanceof IncompletePass) return { reason: 'incomplete', detail: error.message };
	return undefined;
}

export interface RequestDesk {
	/** Saves how far a request is, for the command that waits. */
	onProgress(seen: number, total: number | undefined): void;
	/**
	 * Does the oldest request that waits.
	 *
	 * @returns undefined where there is none
	 * @throws SessionLost, or what it was aborted with: the request stays, for the next synchroniser or for the command itself
	 */
	serveNext(synchroniser: Synchroniser): Promise<{ kind: SyncRequest['kind']; isDone: boolean } | undefined>;
}

/** Milliseconds between two notes of how far a request is. */
const progressEvery = 1000;

/** Where the synchroniser that runs finds what commands have asked for. */
export function createRequestDesk(options: {
	config: CrmConfig;
	session: Session;
	clock: Clock;
	logger: FastifyBaseLogger;
	signal: AbortSignal;
}): RequestDesk {
	const { session, clock, logger, signal } = options;
	const own = mirrorConfiguration(options.config);
	let current: { id: string; notedAt: number } | undefined;

	return {
		onProgress(seen, total) {
			if (current === undefined || clock.now() - current.notedAt < progressEvery) return;
			current.notedAt = clock.now();
			const { id } = current;
			// Nothing depends on it; a lost connection is found by the pass itself.
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
			current = { id, notedAt: Number.NEGATIVE_INFINITY };
			try {
				const result = await perform(synchroniser, session, request);
				logger.info({ request: kind, ...result }, 'request done');
				await end(result);
				return { kind, isDone: true };
			} catch (error) {
				if (error instanceof SessionLost || signal.aborted) throw error;
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
