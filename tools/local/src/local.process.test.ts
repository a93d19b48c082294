import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ownerRole, roles } from '@contacts/migrations/roles.js';
import { contacts, dispose, type Launcher, launch, partsOf, remainsOf } from '@contacts/testing/launcher.js';
import { isAlive } from '@contacts/testing/proc.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

// Each start continues with the data folder of the one before it, as a user does who keeps it for weeks.

const folder = join(sharedFolder(), 'data of mine');
let running: Launcher;

async function start(): Promise<void> {
	running = await launch(folder);
	await running.ready();
}

beforeAll(start);
afterAll(() => dispose(running));

const addressOf = (name: 'company' | 'personal') => `http://127.0.0.1:${running.ports[name]}`;
const curlLines = () =>
	running
		.stdout()
		.split('\n')
		.filter((line) => line.trimStart().startsWith('curl '));
const paste = async (line = '') => JSON.parse((await promisify(execFile)('sh', ['-c', line])).stdout);
const projects = async () => {
	const { code, stdout } = await contacts(folder, 'project', 'list', '--json');
	expect(code).toBe(0);
	return JSON.parse(stdout).map((project: { code: string }) => project.code);
};

/** What the launcher itself wrote to standard error, beside the lines of the services. */
const complaints = () =>
	running
		.stderr()
		.split('\n')
		.filter((line) => line !== '' && !line.startsWith('{'));

describe('the first start', () => {
	test('prints the URLs of both services, and two requests that work when pasted', async () => {
		expect(running.stdout()).toMatch(new RegExp(`^company-contacts +${addressOf('company')}$`, 'm'));
		expect(running.stdout()).toMatch(new RegExp(`^personal-contacts +${addressOf('personal')}$`, 'm'));
		for (const name of ['company', 'personal'] as const) {
			expect((await fetch(`${addressOf(name)}/health/ready`)).status).toBe(200);
			expect((await fetch(`${addressOf(name)}/docs`)).status).toBe(200);
		}
		const [listing, saving, ...more] = curlLines();
		expect(more).toEqual([]);
		const { data } = await paste(listing);
		expect(data.map(({ bitrix_id }: { bitrix_id: number }) => bitrix_id)).toEqual([1002, 1005, 1009]);
		expect(await paste(saving)).toEqual({ ok: 'saved' });
	});

	test('runs each service in a separate process, whose password opens the database with no role but its own', async () => {
		const { pids } = partsOf(running);
		expect(Object.keys(pids).sort()).toEqual(['company-contacts', 'database', 'personal-contacts']);
		for (const name of ['company-contacts', 'personal-contacts'] as const) {
			const environment = readFileSync(`/proc/${pids[name]}/environ`, 'utf8');
			const url = new URL(/(?:^|\0)DATABASE_URL=([^\0]*)/.exec(environment)?.[1] ?? '');
			expect(url.username).toBe(roles[name]);
			for (const user of [...Object.values(roles), ownerRole, 'postgres']) {
				url.username = user;
				const sql = postgres(url.href, { max: 1, fetch_types: false });
				const outcome = await sql`select 1`.then(
					() => 'connected',
					(error: { code: string }) => error.code,
				);
				await sql.end();
				expect([name, user, outcome]).toEqual([name, user, user === roles[name] ? 'connected' : '28P01']);
			}
		}
	});

	test('has a database that "contacts" finds, and whose owner is no superuser', async () => {
		expect(await projects()).toEqual(['demo']);
		expect(await contacts(folder, 'subscription', 'start', '77')).toMatchObject({ code: 0, stderr: '' });
		const { findings } = JSON.parse((await contacts(folder, 'doctor', '--json')).stdout) as {
			findings: { check: string; state: string }[];
		};
		const message = expect.stringContaining('belong to contacts_owner');
		expect(findings).toContainEqual({ check: 'owner', state: 'ok', message });
		expect(findings.filter(({ state }) => state !== 'ok' && state !== 'skipped')).toEqual([]);
	});

	test('keeps its secrets from other users', () => {
		for (const name of ['password', 'database.json']) expect(statSync(join(folder, name)).mode & 0o077).toBe(0);
		expect(statSync(join(folder, 'postgres')).mode & 0o077).toBe(0);
	});

	test('is not affected by a second one on the same folder, which fails with one line', async () => {
		const second = await launch(folder);
		expect(await second.exit).toBe(1);
		expect(second.stderr()).toMatch(/^PostgreSQL already runs on [^\n]+ set another LOCAL_DATA_DIR [^\n]+\n$/);
		expect(await projects()).toEqual(['demo']);
	});

	test('stops everything in order at SIGTERM, also when a package manager sends it twice, and leaves no process, port or lock behind', async () => {
		const parts = partsOf(running);
		expect(await remainsOf(parts)).toHaveLength(6);
		running.kill('SIGTERM');
		expect(await running.end('SIGTERM')).toBe(0);
		expect(running.stdout()).toMatch(/Stopping \.\.\.\nStopped\.\n$/);
		expect(complaints()).toEqual([]);
		// The services had time to end by themselves.
		const lines = running.stderr().trimEnd().split('\n');
		const stopped = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'stopped');
		expect(stopped.map(({ name }) => name).sort()).toEqual(['company-contacts', 'personal-contacts']);
		expect(await remainsOf(parts)).toEqual([]);
		expect(readdirSync(folder).sort()).toEqual(['password', 'postgres']);
		expect(existsSync(join(folder, 'postgres', 'postmaster.pid'))).toBe(false);
		expect((await contacts(folder, 'project', 'list')).stderr).toBe(
			'error: There is no database: set DATABASE_URL, or run "npx -y pnpm@12 start" in another terminal.\n',
		);
	});
});

test('a later start keeps all data and does not add the demo again; SIGKILL of the launcher ends the services and the database', async () => {
	await start();
	const [, saving = ''] = curlLines();
	expect(await paste(saving.replace('5550001', '77'))).toEqual({ ok: 'skipped' });
	expect((await contacts(folder, 'project', 'create', '--no-wait', 'mine')).code).toBe(0);
	expect(await paste(saving.replace('5550001', '4242'))).toEqual({ ok: 'saved' });
	const parts = partsOf(running);
	running.kill('SIGKILL');
	await expect.poll(() => isAlive(running.pid)).toBe(false);
	// The next start does not wait for them.
	const next = start();
	await expect
		.poll(() => remainsOf({ ...parts, pids: { ...parts.pids, database: 0 } }), { timeout: 60_000 })
		.toEqual([]);
	await next;
	expect(isAlive(Number(parts.pids.database))).toBe(false);
	expect(await projects()).toEqual(['demo', 'mine']);
	expect((await contacts(folder, 'person', 'export', '--chat', '4242')).stdout).toContain('"Ivan Petrov"');
});

test.each(['the database', 'company-contacts'])(
	'%s ends by itself: the launcher names it, stops the rest and exits with 1, and the next start works',
	async (name) => {
		// The line with its process ID comes through another pipe than "Ready".
		const pid = () => partsOf(running).pids[name.replace('the ', '')];
		await expect.poll(pid).toBeDefined();
		const parts = partsOf(running);
		process.kill(Number(pid()), 'SIGKILL');
		expect(await running.exit).toBe(1);
		expect(complaints()).toEqual([`${name} has ended by itself: stopping the rest. Its last lines are above.`]);
		expect(await remainsOf(parts)).toEqual([]);
		await start();
		expect(await projects()).toEqual(['demo', 'mine']);
	},
);

test('SIGINT stops everything with exit 0', async () => {
	const parts = partsOf(running);
	expect(await running.end('SIGINT')).toBe(0);
	expect(await remainsOf(parts)).toEqual([]);
});
