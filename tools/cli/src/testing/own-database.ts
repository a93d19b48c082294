import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { expect, onTestFinished } from 'vitest';

/** A migrated database for the current test alone. */
export async function ownDatabase(template?: string): Promise<TestDatabase> {
	const database = await createTestDatabase(template);
	onTestFinished(() => database.drop());
	return database;
}

/** Waits until this many sessions of the database wait for a lock. */
export async function lockWaiters({ sql }: Pick<TestDatabase, 'sql'>, count = 1): Promise<void> {
	const waiting = () => sql`
		select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
	await expect.poll(waiting).toHaveLength(count);
}
