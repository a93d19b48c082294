import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { onTestFinished } from 'vitest';

/** A migrated database for the current test alone. */
export async function ownDatabase(template?: string): Promise<TestDatabase> {
	const database = await createTestDatabase(template);
	onTestFinished(() => database.drop());
	return database;
}
