import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { createTestDatabase, rolePassword } from '@contacts/testing/database.js';
import { contacts, dispose, type Launcher, launch, partsOf, remainsOf } from '@contacts/testing/launcher.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';

async function start(dataFolder: string, more: Record<string, string> = {}, ...args: string[]): Promise<Launcher> {
	const launcher = await launch(dataFolder, more, ...args);
	onTestFinished(() => dispose(launcher));
	return launcher;
}

/** Expects exit 1 with one line on standard error, and that nothing keeps running. */
async function expectLine(
	line: RegExp,
	more: Record<string, string>,
	dataFolder?: string,
	...args: string[]
): Promise<void> {
	const launcher = await start(dataFolder ?? (await temporaryFolder()), more, ...args);
	expect(await launcher.exit).toBe(1);
	expect(launcher.stderr().split('\n')).toEqual([expect.stringMatching(line), '']);
	expect(launcher.stdout()).not.toContain('Ready');
	expect(await remainsOf(partsOf(launcher))).toEqual([]);
}

/** A port on which something listens that never responds. */
async function usedPort() {
	const server = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
	await once(server, 'listening');
	onTestFinished(() => void server.close());
	return { server, port: (server.address() as AddressInfo).port };
}

/** A process of the user that PostgreSQL runs as. @returns its ID */
function otherProcess(): number {
	const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres']));
	const user = process.getuid?.() === 0 ? { uid: id('-u'), gid: id('-g') } : {};
	const child = spawn('sleep', ['600'], user);
	onTestFinished(() => void child.kill());
	return child.pid as number;
}

describe('what prevents a start is said in one line:', () => {
	test('a port that is in use', async () => {
		const { port } = await usedPort();
		const line = new RegExp(`^Port ${port} is in use, .* set PERSONAL_CONTACTS_PORT to a free port\\.$`);
		await expectLine(line, { PERSONAL_CONTACTS_PORT: String(port) });
	});

	test('a wrong variable, whose value is not repeated', async () => {
		await expectLine(/^DATABASE_URL is wrong: it must be a URL like postgres:/, { DATABASE_URL: 'mysql://canary@x/x' });
	});

	test('the same port for both services', async () => {
		const line = /^PERSONAL_CONTACTS_PORT and COMPANY_CONTACTS_PORT are the same/;
		await expectLine(line, { PERSONAL_CONTACTS_PORT: '3000', COMPANY_CONTACTS_PORT: '3000' });
	});

	test('an argument', async () => {
		await expectLine(/^start takes only --watch, but was given --fast\.$/, {}, undefined, '--fast');
	});

	test('a data folder that can’t be made', async () => {
		const file = join(await temporaryFolder(), 'file');
		writeFileSync(file, 'precious');
		await expectLine(/^EEXIST: .*\/file'$/, { LOCAL_DATA_DIR: file });
	});

	test('a database that does not respond', async () => {
		const url = Object.assign(new URL(database.url), { port: '1' });
		await expectLine(/^The database does not respond \(ECONNREFUSED\)\. Is it running/, { DATABASE_URL: url.href });
	});

	test('a database that refuses the password, which is not repeated', async () => {
		const url = Object.assign(new URL(database.url), { password: 'canary' });
		await expectLine(/^The database refuses the user or the password in DATABASE_URL\.$/, { DATABASE_URL: url.href });
	});

	test('a database user that may not migrate', async () => {
		const url = urlAs(database.url, 'personal-contacts', rolePassword);
		await expectLine(/^Only the owner of the database can migrate it: .+ names another user\.$/, { DATABASE_URL: url });
	});

	test.each([
		['is empty', () => ''],
		['names a process that is no PostgreSQL', () => `${otherProcess()}\n`],
	])('a lock file that %s, and after its removal all goes on', async (_, content) => {
		const folder = await temporaryFolder();
		const first = await launch(folder);
		await first.ready();
		expect(await first.end('SIGTERM')).toBe(0);
		const file = join(folder, 'postgres', 'postmaster.pid');
		writeFileSync(file, content(), { mode: 0o644 });
		const refused = await launch(folder);
		expect(await refused.exit).toBe(1);
		expect(refused.stderr()).toMatch(/^\S*\/postmaster\.pid is left from [^\n]*: delete this file\.\n$/);
		rmSync(file);
		await (await start(folder)).ready();
	});

	test('data that this user, or PostgreSQL’s, may not read', async () => {
		const folder = await temporaryFolder();
		const data = join(folder, 'postgres');
		mkdirSync(data);
		writeFileSync(join(data, 'PG_VERSION'), '18');
		chmodSync(data, 0);
		onTestFinished(() => chmodSync(data, 0o700));
		await expectLine(
			/(\/postgres\/postgresql\.conf": Permission denied\. Start as the user to whom|EACCES: .*\/postgres')/,
			{},
			folder,
		);
	});

	test('a password file that is empty', async () => {
		const folder = await temporaryFolder();
		writeFileSync(join(folder, 'password'), '');
		await expectLine(/\/password is empty, .* or delete /, {}, folder);
	});

	test('a database with tables of another program, which stay', async () => {
		const own = await createTestDatabase('template0');
		onTestFinished(() => own.drop());
		await own.sql`create table projects (precious text)`;
		await expectLine(/^The database has tables of another program/, { DATABASE_URL: own.url });
		expect(await own.sql`select precious from projects`).toEqual([]);
	});

	test('an unknown parameter of DATABASE_URL', async () => {
		await expectLine(/its parameter "schema": leave it out\.$/, { DATABASE_URL: `${database.url}?schema=public` });
	});

	test.each([
		['precious', /holds files but no database\. Move them away, or use another LOCAL_DATA_DIR\.$/],
		['PG_VERSION', /is of PostgreSQL 12, and this is PostgreSQL \d+\. Move it away, or use another LOCAL_DATA_DIR\.$/],
	])('files that are not a database, or of another version (%s), which are kept', async (name, line) => {
		const folder = await temporaryFolder();
		mkdirSync(join(folder, 'postgres'));
		writeFileSync(join(folder, 'postgres', name), '12');
		await expectLine(line, {}, folder);
		expect(readdirSync(join(folder, 'postgres'))).toEqual([name]);
	});
});

test('of two first starts on one new folder, one serves it and the other one names the folder in one line', async () => {
	const folder = await temporaryFolder();
	const launchers = await Promise.all([launch(folder), launch(folder)]);
	onTestFinished(async () => {
		for (const launcher of launchers) await launcher.stop();
	});
	const loser = await Promise.race(launchers.map((launcher) => launcher.exit.then(() => launcher)));
	expect(await loser.exit).toBe(1);
	expect(loser.stderr()).toMatch(/^[^\n]+\n$/);
	expect(loser.stderr()).toContain(folder);
	const [winner] = launchers.filter((launcher) => launcher !== loser);
	await winner?.ready();
	expect((await contacts(folder, 'project', 'list')).stdout).toContain('demo');
	expect(readdirSync(folder).sort()).toEqual(['database.json', 'password', 'postgres']);
});

describe('a signal during the start', () => {
	const databaseBegins = (launcher: Launcher) =>
		expect.poll(() => partsOf(launcher).pids.database ?? 0, { timeout: 60_000, interval: 5 }).toBeGreaterThan(0);

	test('ends the launcher with exit 0 and leaves nothing behind, and SIGKILL does not prevent the next start', async () => {
		const folder = await temporaryFolder();
		const stopped = await start(folder);
		await databaseBegins(stopped);
		const parts = partsOf(stopped);
		expect(await stopped.end('SIGTERM')).toBe(0);
		expect(stopped.stdout()).not.toContain('Ready');
		expect(await remainsOf({ pids: { ...parts.pids, ...partsOf(stopped).pids }, ports: parts.ports })).toEqual([]);

		const killed = await start(folder);
		await databaseBegins(killed);
		await killed.end('SIGKILL');
		const next = await start(folder);
		await next.ready();
		expect((await contacts(folder, 'project', 'list')).stdout).toContain('demo');
	});

	test('ends the launcher with exit 0 while it waits for a database that does not respond', async () => {
		const { server, port } = await usedPort();
		const connected = once(server, 'connection');
		const url = `postgres://user:password@127.0.0.1:${port}/contacts`;
		const launcher = await start(await temporaryFolder(), { DATABASE_URL: url });
		await connected;
		expect(await launcher.end('SIGHUP')).toBe(0);
		expect(launcher.stderr()).toBe('');
	});
});

test('with DATABASE_URL the launcher migrates and serves that database, never adds the demo, and leaves it running', async () => {
	const own = await createTestDatabase('template0');
	onTestFinished(() => own.drop());
	const folder = await temporaryFolder();
	const running = await start(folder, { DATABASE_URL: own.url });
	await running.ready();
	expect(await own.sql`select from projects union all select from company_contacts`).toEqual([]);
	expect(running.stdout()).toContain('Your database has no demo.');
	expect(running.stdout()).not.toContain('demo-key');

	await addProject(own.sql, 'mine', 'my-key');
	const list = `http://127.0.0.1:${running.ports.company}/api/company_contacts.list?project=mine&api_key=my-key`;
	await expect.poll(async () => (await fetch(list)).status).toBe(200);
	expect(readdirSync(folder)).toEqual([]);
	const parts = partsOf(running);
	expect(await running.end('SIGTERM')).toBe(0);
	expect(await remainsOf(parts)).toEqual([]);
	expect(await own.sql`select code from projects`).toEqual([{ code: 'mine' }]);
});
