import { openStatePoll, type StatePoll } from '@contacts/common/database/state-poll.js';
import { database } from '@contacts/testing/test.js';
import { onTestFinished } from 'vitest';
import { watchedContacts } from '../contacts-state.sql.js';

/** Longer than any test. */
const neverMs = 600_000;

/** A poll of the real database that runs only when the test calls `see`, or when somebody waits for it. */
export function openManualPoll({ clock = (): number => 0 } = {}): {
	poll: StatePoll;
	/** Finds what was committed before. */
	see(): Promise<unknown>;
} {
	const poll = openStatePoll({
		url: database.url,
		applicationName: 'manual poll',
		watched: [watchedContacts],
		intervalMs: neverMs,
		clock,
	});
	onTestFinished(() => poll.close());
	return { poll, see: () => poll.refresh(20_000) };
}

/** The same after its first poll. */
export async function openSeenPoll(): Promise<StatePoll> {
	const { poll, see } = openManualPoll();
	await see();
	return poll;
}
