import { setTimeout as delay } from 'node:timers/promises';
import type { Sql } from '@contacts/common/database/client.js';
import { classify } from '@contacts/common/database/errors.js';
import { maxStateAgeMs } from '@contacts/common/database/state-poll.js';
import { withDatabase } from './connection.js';
import { CommandError } from './errors.js';
import type { Output } from './terminal/output.js';

/** The option of each command that changes keys or projects. */
export const noWait = [
	'--no-wait',
	'end at once, and not when the change is in force in every process: for scripts that make hundreds',
] as const;

export interface WaitOptions {
	wait?: boolean;
}

/** Changes keys or projects. @throws CommandError also when it is not known whether the change was made */
export const changeKeys = <T>(environment: NodeJS.ProcessEnv, work: (sql: Sql) => Promise<T>): Promise<T> =>
	withDatabase(environment, (sql) =>
		// Only of the work: when no connection opens, nothing was done.
		work(sql).catch((error: unknown) => {
			if (classify(error).kind !== 'lost') throw error;
			throw new CommandError(
				'The connection to the database was lost, so it is not known whether this was done: see "contacts key list" and "contacts project list".',
			);
		}),
	);

/** Waits until every process has seen the change, so that the next line of a script can rely on it. */
export async function untilInForce(output: Output, { wait = true }: WaitOptions): Promise<void> {
	if (!wait) return;
	output.hint('Waiting a second, until this is in force in every process.');
	await delay(maxStateAgeMs);
}
