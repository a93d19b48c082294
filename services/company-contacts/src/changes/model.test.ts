import { randomInt } from 'node:crypto';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import fc from 'fast-check';
import { afterAll } from 'vitest';
import { service } from '../app.js';
import { HistoryRunner, histories } from './testing/history.js';

/** `CHANGES_HISTORIES=1000` runs more histories; `CHANGES_SEED=N` repeats one. */
const runs = Number(process.env.CHANGES_HISTORIES ?? 20);
const seed = Number(process.env.CHANGES_SEED ?? randomInt(2 ** 31));

let apps: TestApp[];
let runner: HistoryRunner;

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', 'partner-key');
	const environment = { RATE_LIMIT_PER_SECOND: '100000', RATE_LIMIT_BURST: '100000' };
	apps = await Promise.all([1, 2].map(() => startTestApp(service, database.url, { environment })));
	runner = new HistoryRunner(database.sql, database.url, apps);
});
afterAll(async () => {
	await runner?.close();
	await Promise.all((apps ?? []).map((app) => app.close()));
});

test('whatever happens, each copy becomes the list: several writers, overlapping transactions, restores, replicas, crashes', {
	timeout: 300_000 + 1000 * runs,
}, async () => {
	console.log(`${runs} histories from seed ${seed}`);
	await fc.assert(
		fc.asyncProperty(histories, (steps) => runner.run(steps)),
		{ numRuns: runs, seed, endOnFailure: true },
	);
});
