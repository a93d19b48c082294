import { type Database, openDatabase } from '@contacts/common/database/database.js';
import { DatabaseError, DeadlineError } from '@contacts/common/database/errors.js';
import { database as db } from '@contacts/testing/test.js';
import { onTestFinished } from 'vitest';

export interface ObservedDatabase {
	database: Database;
	/** The time by which callers wait, in milliseconds. */
	now: number;
	/** How many queries were sent. */
	queries: number;
	/** While it is set, each result waits for it after it was read. */
	held: Promise<unknown> | undefined;
	/** While it is set, each query is sent nowhere, and fails at its deadline when `expire` is called. */
	isSlow: boolean;
	expire(): void;
}

/** The real database, whose queries are counted, and which can be late or unresponsive. */
export function openObservedDatabase(): ObservedDatabase {
	const opened = openDatabase({
		url: db.url,
		applicationName: 'observed',
		poolSize: 4,
		maxCallers: 2000,
		clock: () => observed.now,
	});
	onTestFinished(() => opened.close());
	const observed: ObservedDatabase = {
		now: 0,
		queries: 0,
		held: undefined,
		isSlow: false,
		expire: () => undefined,
		database: {
			...opened,
			async query(...statement) {
				observed.queries++;
				if (observed.isSlow)
					return new Promise((_, fail) => {
						observed.expire = () => fail(new DatabaseError(new DeadlineError(opened.deadlineMs, true)));
					});
				const { held } = observed;
				const rows = await opened.query(...statement);
				await held;
				return rows;
			},
		},
	};
	return observed;
}
