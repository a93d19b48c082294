import { type RoleUser, urlAs } from '@contacts/migrations/roles.js';
import { rolePassword } from '@contacts/testing/database.js';
import { startServiceProcess as startProcess } from '@contacts/testing/service-process.js';
import { type ProgramName, startService as startListening } from '@contacts/testing/services.js';
import { database } from '@contacts/testing/test.js';

/** The URL of this test file's database, with a role. */
export const urlFor = (user: RoleUser) => urlAs(database.url, user, rolePassword);

/** Starts a built service on this test file's database, and waits until it listens. */
export const startService = (name: ProgramName, environment: Record<string, string> = {}) =>
	startListening(name, { DATABASE_URL: urlFor(name), ...environment });

/** The same for the duration of a test, without waiting. It is killed at the end of the test in any state. */
export const startServiceProcess = (name: ProgramName, environment: Record<string, string> = {}) =>
	startProcess(name, { DATABASE_URL: urlFor(name), ...environment });
