import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashKey } from '@contacts/common/auth/api-key.js';
import { migrate } from '@contacts/common/database/migrate.js';
import { startLocalPostgres } from '@contacts/local-postgres/server.js';
import { contacts, dispose, type Launcher, launch } from '@contacts/testing/launcher.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import postgres from 'postgres';
import { expect, onTestFinished, test } from 'vitest';

async function started(dataFolder: string): Promise<Launcher> {
	const launcher = await launch(dataFolder);
	onTestFinished(() => dispose(launcher));
	await launcher.ready();
	return launcher;
}

/** The findings of "contacts doctor" about the database's owner. */
async function ownerOf(dataFolder: string): Promise<unknown> {
	const { stdout } = await contacts(dataFolder, 'doctor', '--json');
	const { findings } = JSON.parse(stdout) as { findings: { check: string }[] };
	return findings.find(({ check }) => check === 'owner');
}

const owned = { check: 'owner', state: 'ok', message: expect.stringContaining('belong to contacts_owner') };

test('a new data folder has a database whose owner is not a superuser, and backup and restore work', async () => {
	const folder = await temporaryFolder();
	// As a first start on a full disk leaves it.
	writeFileSync(join(folder, 'password'), '');
	await started(folder);
	expect(await ownerOf(folder)).toEqual(owned);
	const file = join(folder, 'contacts.backup');
	expect(await contacts(folder, 'backup', file)).toMatchObject({ code: 0 });
	expect(await contacts(folder, 'project', 'create', 'later')).toMatchObject({ code: 0 });
	expect(await contacts(folder, 'restore', file, '--replace', '--yes')).toMatchObject({ code: 0 });
	const { stdout } = await contacts(folder, 'project', 'list', '--json');
	expect(JSON.parse(stdout)).toMatchObject([{ code: 'demo' }]);
});

test('a data folder from when the superuser owned everything still works with all its data, and gets the same owner', async () => {
	const folder = await temporaryFolder();
	const password = 'made by an earlier version';
	mkdirSync(folder, { recursive: true });
	writeFileSync(join(folder, 'password'), password, { mode: 0o600 });
	const server = await startLocalPostgres({ dataDirectory: join(folder, 'postgres'), password });
	const superuser = postgres(server.url('postgres'), { max: 1 });
	await superuser`create database contacts`;
	await superuser.end();
	await migrate(server.url('contacts'), 7);
	const sql = postgres(server.url('contacts'), { max: 1 });
	// As the release of that schema did: the code of today knows columns that are not there yet.
	await sql`
		with project as (insert into projects (code) values ('kept') returning id)
		insert into api_keys (project_id, hash) select id, ${hashKey('kept-key')} from project`;
	await sql.end();
	await server.stop();

	// Twice: the second start finds the owner that the first one created.
	for (const start of ['first', 'second']) {
		const running = await started(folder);
		expect(await ownerOf(folder)).toEqual(owned);
		const url = `http://127.0.0.1:${running.ports.personal}/api/personal_contacts?project=kept&api_key=kept-key`;
		const headers = { 'content-type': 'application/json' };
		const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ chat_id: 7, name: start }) });
		expect(await response.json()).toEqual({ ok: 'saved' });
		expect((await contacts(folder, 'project', 'create', start)).code).toBe(0);
		expect(await running.end('SIGTERM')).toBe(0);
	}
});
