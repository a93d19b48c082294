import { test as anyTest } from 'vitest';
import { createTestDatabase, type TestDatabase, templateDatabase } from './database.js';

/** The database of this test file. It exists from the first `test.beforeAll` or test on. */
export let database: TestDatabase;

/**
 * `test` for a file that needs a copy of this template. It is created before the first hook or test, and dropped after the
 * last `afterAll`.
 */
export const testOn = (template: string) =>
	anyTest
		.extend('template', { scope: 'file' }, template)
		.extend('database', { scope: 'file', auto: true }, async ({ template }, { onCleanup }) => {
			database = await createTestDatabase(template);
			onCleanup(database.drop);
			return database;
		});

/** `test` for a file that needs a migrated database. */
export const test = testOn(templateDatabase);
