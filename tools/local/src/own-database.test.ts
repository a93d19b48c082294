import { readdirSync } from 'node:fs';
import { addProject } from '@contacts/testing/app.js';
import { createTestDatabase, type TestDatabase } from '@contacts/testing/database.js';
import { dispose, launch, partsOf, remainsOf } from '@contacts/testing/launcher.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';

let database: TestDatabase;

beforeEach(async () => {
	database = await createTestDatabase('template0');
});
afterEach(() => database.drop());

test('with DATABASE_URL the launcher migrates and serves that database, and never adds the demo', async () => {
	const folder = await temporaryFolder();
	const running = await launch(folder, { DATABASE_URL: database.url });
	onTestFinished(() => dispose(running));
	await running.ready();

	const [counts] = await database.sql`
		select (select count(*) from projects)::int as projects, (select count(*) from api_keys)::int as keys,
		       (select count(*) from company_contacts)::int as contacts`;
	expect(counts).toEqual({ projects: 0, keys: 0, contacts: 0 });
	expect(running.stdout()).toContain('No demo credentials here. Create a project and a key:');
	expect(running.stdout()).not.toContain('demo-key');
	const list = (query: string) => fetch(`http://127.0.0.1:${running.ports.company}/api/company_contacts.list?${query}`);
	expect((await list('project=demo&api_key=demo-key')).status).toBe(401);

	// The services use this database, and no other was created.
	await addProject(database.sql, 'mine', 'my-key');
	await expect.poll(async () => (await list('project=mine&api_key=my-key')).status).toBe(200);
	expect(readdirSync(folder)).toEqual([]);

	const parts = partsOf(running);
	expect(Object.keys(parts.pids).sort()).toEqual(['company-contacts', 'personal-contacts']);
	expect(await running.end('SIGTERM')).toBe(0);
	expect(await remainsOf(parts)).toEqual([]);
	// The launcher does not own this database, so the database keeps running.
	expect(await database.sql`select code from projects`).toEqual([{ code: 'mine' }]);
});

test('two launchers with different ports can run on the same database', async () => {
	const first = await launch(await temporaryFolder(), { DATABASE_URL: database.url });
	onTestFinished(() => dispose(first));
	const second = await launch(await temporaryFolder(), { DATABASE_URL: database.url });
	onTestFinished(() => dispose(second));
	await Promise.all([first.ready(), second.ready()]);
	expect([await first.end('SIGTERM'), await second.end('SIGTERM')]).toEqual([0, 0]);
});
