import type { Sql } from '@contacts/common/database/client.js';
import type { Clock } from '@contacts/crm-sync/bitrix24/clock.js';
import type { MirrorConfiguration } from '@contacts/crm-sync/mirror-configuration.js';
import type { RequestResult } from '@contacts/crm-sync/requests.js';
import {
	deleteRequest,
	insertRequest,
	renewRequest,
	type SyncRequest,
	withdrawRequest,
} from '@contacts/crm-sync/requests.sql.js';
import { openSession, type Session } from '@contacts/crm-sync/session.js';
import { describeHolder, findLockHolder, type LockHolder } from '@contacts/crm-sync/session.sql.js';
import { CommandError } from './errors.js';

export interface AskOptions {
	/** The operator's connection. */
	sql: Sql;
	/** The URL for a separate session, in case the command must do the work itself. */
	url: string;
	request: SyncRequest;
	configuration: MirrorConfiguration;
	clock: Clock;
	/** Aborts the waiting, as Ctrl-C does. */
	signal: AbortSignal;
	onProgress(seen: number, total: number | undefined): void;
	/** Called when the synchroniser has been busy with other work for a while. */
	onBusy(what: string): void;
}

/** The interval between two checks of the request. */
const pollIntervalMs = 500;

/** The timeout until an idle synchroniser begins. It checks for requests once a second. */
const beginTimeoutMs = 60_000;

/** The timeout without a request to the portal. The longest rate-limit pause is 11 minutes. */
const stallTimeoutMs = 900_000;

/** The delay before the command says what the synchroniser is busy with. */
const busyNoteAfterMs = 10_000;

/**
 * Makes the synchroniser that holds the lock do something, and waits for it. When it ends too early, the lock becomes
 * free, and the next holder does the work.
 *
 * @returns the result, or, when no synchroniser runs any more, a session to do the work
 * @throws CommandError when nobody does the work, or the user interrupts the command
 */
export async function askSynchroniser(options: AskOptions): Promise<RequestResult | Session> {
	const { sql, clock, signal } = options;
	const id = await insertRequest(sql, options.request, options.configuration);
	try {
		return await waitForResult(options, id);
	} catch (error) {
		const isWithdrawn = await withdrawRequest(sql, id).catch(() => false);
		if (!signal.aborted) throw error;
		throw new CommandError(
			isWithdrawn
				? 'Interrupted: nothing was done.'
				: 'Interrupted, but the synchroniser goes on with it: see "contacts sync status".',
		);
	}

	async function waitForResult({ url, onProgress, onBusy }: AskOptions, id: string): Promise<RequestResult | Session> {
		const begun = clock.now();
		let isTold = false;
		let lastSign = '';
		let lastSignAt = begun;
		for (;;) {
			const state = await renewRequest(sql, id);
			if (state === undefined) throw new CommandError('The request was deleted, perhaps by a restore. Run this again.');
			if (state.result !== null) return state.result;
			const holder = await findLockHolder(sql);
			if (holder === undefined) {
				const session = await takeOver(url, id);
				if (session !== undefined) return session;
				continue;
			}
			if (state.is_taken && state.seen !== null) onProgress(state.seen, state.total ?? undefined);
			if (!state.is_taken && state.running !== null && !isTold && clock.now() - begun > busyNoteAfterMs) {
				isTold = true;
				onBusy(state.running);
			}
			const sign = JSON.stringify([state.is_taken, state.running, state.bucket_arrival]);
			if (sign !== lastSign) [lastSign, lastSignAt] = [sign, clock.now()];
			const isBusy = state.is_taken || state.running !== null;
			if (clock.now() - lastSignAt > (isBusy ? stallTimeoutMs : beginTimeoutMs))
				throw new CommandError(explainTimeout(isBusy, holder));
			await clock.sleep(pollIntervalMs, signal);
		}
	}

	/** @returns undefined when another holder was faster or has just finished the work */
	async function takeOver(url: string, id: string): Promise<Session | undefined> {
		const session = await openSession(url);
		if (session === undefined) return undefined;
		try {
			const state = await renewRequest(sql, id);
			if (state?.result === null) {
				await deleteRequest(sql, id);
				return session;
			}
		} catch (error) {
			// An open session would keep the command running, and the lock from others.
			await session.close();
			throw error;
		}
		await session.close();
		return undefined;
	}
}

function explainTimeout(isBusy: boolean, holder: LockHolder): string {
	return isBusy
		? `The synchroniser that runs has done nothing for ${stallTimeoutMs / 60_000} minutes: look at its log, or restart it.`
		: `Nobody has begun with it within ${beginTimeoutMs / 1000} seconds, though ${describeHolder(holder)} holds the lock of the synchroniser: a restore, a synchroniser of an earlier release, or one that hangs. Nothing was done.`;
}
