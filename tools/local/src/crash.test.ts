import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { contacts, dispose, type Launcher, launch, partsOf, remainsOf } from '@contacts/testing/launcher.js';
import { isAlive } from '@contacts/testing/proc.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { describe, expect, onTestFinished } from 'vitest';

async function start(dataFolder: string, more: Record<string, string> = {}): Promise<Launcher> {
	const launcher = await launch(dataFolder, more);
	onTestFinished(() => dispose(launcher));
	return launcher;
}

async function started(dataFolder: string, more: Record<string, string> = {}): Promise<Launcher> {
	const launcher = await start(dataFolder, more);
	await launcher.ready();
	return launcher;
}

const databaseBegins = (launcher: Launcher) =>
	expect.poll(() => partsOf(launcher).pids.database ?? 0, { timeout: 60_000, interval: 5 }).toBeGreaterThan(0);
const portsOf = ({ ports }: Launcher) => ({
	COMPANY_CONTACTS_PORT: String(ports.company),
	PERSONAL_CONTACTS_PORT: String(ports.personal),
});
const projectsOf = async (dataFolder: string) => {
	const { code, stdout } = await contacts(dataFolder, 'project', 'list', '--json');
	expect(code).toBe(0);
	return JSON.parse(stdout).map((row: { code: string }) => row.code);
};

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
	expect(await projectsOf(folder)).toEqual(['demo']);
	expect(readdirSync(folder).sort()).toEqual(['database.json', 'password', 'postgres']);
});

describe('SIGKILL of the launcher', () => {
	test('ends the services and the database, and the next start on the same folder and ports has an acknowledged upsert', async () => {
		const folder = await temporaryFolder();
		const killed = await started(folder);
		expect((await contacts(folder, 'project', 'create', 'mine')).code).toBe(0);
		const parts = partsOf(killed);
		expect(await remainsOf(parts)).toHaveLength(6);

		const url = `http://127.0.0.1:${killed.ports.personal}/api/personal_contacts?project=demo&api_key=demo-key`;
		const headers = { 'content-type': 'application/json' };
		const response = await fetch(url, { method: 'POST', headers, body: '{"chat_id":4242,"name":"Kept"}' });
		expect(await response.json()).toEqual({ ok: 'saved' });
		await killed.end('SIGKILL');
		await expect.poll(() => remainsOf(parts), { timeout: 60_000 }).toEqual([]);
		expect((await contacts(folder, 'project', 'list')).stderr).toContain('There is no database');

		const next = await started(folder, portsOf(killed));
		expect(await projectsOf(folder)).toEqual(['demo', 'mine']);
		expect((await contacts(folder, 'person', 'export', '--chat', '4242')).stdout).toContain('"Kept"');
		expect(await next.end('SIGTERM')).toBe(0);
	});

	test('does not delay the next start', async () => {
		const folder = await temporaryFolder();
		const killed = await started(folder);
		const parts = partsOf(killed);
		killed.kill('SIGKILL');
		await expect.poll(() => isAlive(killed.pid)).toBe(false);
		const next = await started(folder);
		expect(await projectsOf(folder)).toEqual(['demo']);
		await expect.poll(() => remainsOf(parts), { timeout: 60_000 }).toEqual([]);
		expect(await next.end('SIGTERM')).toBe(0);
	});

	test('while the database is starting does not prevent the next start', async () => {
		const folder = await temporaryFolder();
		const killed = await start(folder);
		await databaseBegins(killed);
		await killed.end('SIGKILL');
		const next = await started(folder);
		expect(await projectsOf(folder)).toEqual(['demo']);
		expect(await next.end('SIGTERM')).toBe(0);
	});
});

describe('a part that ends by itself', () => {
	test('the synchroniser is started again, and everything else keeps running', async () => {
		const launcher = await launch(await temporaryFolder(), {}, '--with-crm');
		onTestFinished(() => dispose(launcher));
		await launcher.ready();
		const [, url] = /synchroniser (http:\S+)/.exec(launcher.stdout()) ?? [];
		const pidOfSynchroniser = () => partsOf(launcher).pids['crm-sync'] ?? 0;
		// Its first line comes through another pipe than the launcher's "Ready".
		await expect.poll(pidOfSynchroniser).toBeGreaterThan(0);
		const parts = partsOf(launcher);
		const killed = pidOfSynchroniser();
		process.kill(killed, 'SIGKILL');
		const readyAgain = async () => (await fetch(`${url}/health/ready`)).ok && pidOfSynchroniser() !== killed;
		await expect.poll(() => readyAgain().catch(() => false)).toBe(true);
		expect(await remainsOf(parts)).toEqual(
			expect.arrayContaining(['company-contacts', 'personal-contacts', 'database']),
		);
		expect(await launcher.end('SIGTERM')).toBe(0);
		expect(await remainsOf(partsOf(launcher))).toEqual([]);
	});

	test.each(['company-contacts', 'the database'])(
		'%s: the launcher names it, stops the rest and exits with 1, and the next start works',
		async (name) => {
			const folder = await temporaryFolder();
			const launcher = await started(folder);
			const parts = partsOf(launcher);
			process.kill(parts.pids[name.replace('the ', '')] ?? Number.NaN, 'SIGKILL');
			expect(await launcher.exit).toBe(1);
			const lines = launcher.stderr().split('\n');
			expect(lines.filter((line) => line !== '' && !line.startsWith('{'))).toEqual([
				`${name} has ended by itself: stopping the rest. Its last lines are above.`,
			]);
			expect(await remainsOf(parts)).toEqual([]);
			const next = await started(folder, portsOf(launcher));
			expect(await projectsOf(folder)).toEqual(['demo']);
			expect(await next.end('SIGTERM')).toBe(0);
		},
	);
});

describe('a signal during the start', () => {
	test('ends the launcher with exit 0, and leaves nothing behind', async () => {
		const folder = await temporaryFolder();
		const launcher = await start(folder);
		await databaseBegins(launcher);
		const parts = partsOf(launcher);
		expect(await launcher.end('SIGTERM')).toBe(0);
		expect(launcher.stdout()).not.toContain('Ready');
		expect(await remainsOf({ pids: { ...parts.pids, ...partsOf(launcher).pids }, ports: parts.ports })).toEqual([]);
	});

	test('ends the launcher with exit 0 while it waits for a database that does not respond', async () => {
		const server = createServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
		onTestFinished(() => void server.close());
		await once(server, 'listening');
		const { port } = server.address() as AddressInfo;
		const connected = once(server, 'connection');
		const url = `postgres://user:password@127.0.0.1:${port}/contacts`;
		const launcher = await start(await temporaryFolder(), { DATABASE_URL: url });
		await connected;
		expect(await launcher.end('SIGTERM')).toBe(0);
		expect(launcher.stderr()).toBe('');
	});

	test.each(['SIGINT', 'SIGHUP'] as const)('%s right after the start', async (signal) => {
		const launcher = await start(await temporaryFolder(), { DATABASE_URL: database.url });
		await launcher.waitForLine(/./);
		expect(await launcher.end(signal)).toBe(0);
		expect(await remainsOf(partsOf(launcher))).toEqual([]);
	});
});
