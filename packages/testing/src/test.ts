import { test as anyTest } from 'vitest';
import { createTestDatabase, type TestDatabase, templateDatabase } from './database.js';

/** The database of this test file. It exists from the first `test.beforeAll` or test on. */
export let database: TestDatabase;

/**
 * `test` for a file that needs a database. A migrated database is created before the first hook or test, and dropped after
 * the last `afterAll`. `test.override('template', …)` copies another template. Each file has its own database, because
 * vitest isolates files.
 */
export const test = anyTest
	.extend('template', { scope: 'file' }, templateDatabase as string)
	.extend('database', { scope: 'file', auto: true }, async ({ template }, { onCleanup }) => {
		database = await createTestDatabase(template);
		onCleanup(database.drop);
		return database;
	});
