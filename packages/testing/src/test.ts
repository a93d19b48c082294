import { test as anyTest } from 'vitest';
import { createTestDatabase, type TestDatabase, templateDatabase } from './database.js';

/** The database of this test file: there from the first `test.beforeAll` or test on. */
export let database: TestDatabase;

/**
 * `test` of a file that needs a database: a migrated one, created before the first hook or test, and dropped after the last
 * `afterAll`. `test.override('template', …)` makes it another copy. A file has it for itself, as vitest isolates files.
 */
export const test = anyTest
	.extend('template', { scope: 'file' }, templateDatabase as string)
	.extend('database', { scope: 'file', auto: true }, async ({ template }, { onCleanup }) => {
		database = await createTestDatabase(template);
		onCleanup(database.drop);
		return database;
	});
