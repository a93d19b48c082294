import { test as anyTest } from 'vitest';
import { createTestDatabase, type TestDatabase } from './database.js';

/** The database of this test file. It exists from the first `test.beforeAll` or test on. */
export let database: TestDatabase;

/** `test` for a file that needs a migrated database, which exists before the first hook and after the last one. */
// biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of the fixtures that this one needs, which are none.
export const test = anyTest.extend('database', { scope: 'file', auto: true }, async ({}, { onCleanup }) => {
	database = await createTestDatabase();
	onCleanup(database.drop);
	return database;
});
