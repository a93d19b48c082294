import { execFile, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { contacts, dispose, type Launcher, launch, partsOf, remainsOf } from '@contacts/testing/launcher.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

let folder: string;
let running: Launcher;

beforeAll(async () => {
	folder = join(await mkdtemp(join(tmpdir(), 'contacts-start-')), 'data of mine');
	running = await launch(folder);
	await running.ready();
});
afterAll(async () => {
	await dispose(running);
	await rm(join(folder, '..'), { recursive: true, force: true });
});

const run = promisify(execFile);
const list = async (more = '') => {
	const response = await fetch(
		`http://127.0.0.1:${running.ports.company}/api/company_contacts.list?project=demo&api_key=demo-key${more}`,
	);
	expect(response.status).toBe(200);
	return (await response.json()) as { count: number; data: { bitrix_id: number; name: string }[] };
};
const curlLines = () =>
	running
		.stdout()
		.split('\n')
		.filter((line) => line.trimStart().startsWith('curl '));

/** Without curl, a stand-in for the options that the printed lines use. */
const standIn = `curl() { "$NODE" --input-type=module --eval '
	const [url, ...rest] = process.argv.slice(1).sort((a, b) => b.startsWith("http") - a.startsWith("http"));
	const option = (name) => process.argv[process.argv.indexOf(name) + 1];
	const post = process.argv.includes("-X");
	const [header, value] = post ? option("-H").split(": ") : [];
	const response = await fetch(url, post ? { method: option("-X"), headers: { [header]: value }, body: option("-d") } : {});
	process.stdout.write(await response.text());' -- "$@"; }
`;
const paste = async (line: string) => {
	const shell = spawnSync('curl', ['--version']).status === 0 ? line : standIn + line;
	const { stdout } = await run('sh', ['-c', shell], { env: { ...process.env, NODE: process.execPath } });
	return JSON.parse(stdout);
};

describe('start', () => {
	test('prints the URLs of both services, and both are ready', async () => {
		const urls = [`http://127.0.0.1:${running.ports.company}`, `http://127.0.0.1:${running.ports.personal}`];
		expect(running.stdout()).toMatch(new RegExp(`^company-contacts +${urls[0]}$`, 'm'));
		expect(running.stdout()).toMatch(new RegExp(`^personal-contacts +${urls[1]}$`, 'm'));
		expect(running.stdout()).toContain(`API reference, to read and to try: ${urls[0]}/docs and ${urls[1]}/docs`);
		for (const url of urls) expect((await fetch(`${url}/health/ready`)).status).toBe(200);
		for (const url of urls) expect((await fetch(`${url}/docs`)).status).toBe(200);
	});

	test('runs each service in a separate process', () => {
		const { pids } = partsOf(running);
		expect(Object.keys(pids).sort()).toEqual(['company-contacts', 'database', 'personal-contacts']);
		expect(new Set([...Object.values(pids), running.pid]).size).toBe(4);
	});

	test('prints two curl lines that work when pasted', async () => {
		const [listing = '', saving = '', ...more] = curlLines();
		expect(more).toEqual([]);
		const { count, data } = await paste(listing);
		expect(count).toBe(3);
		expect(data.map(({ bitrix_id }: { bitrix_id: number }) => bitrix_id)).toEqual([1002, 1005, 1009]);
		expect(await paste(saving)).toEqual({ ok: 'saved' });
	});

	test('fills an empty database with the demo project and sample contacts', async () => {
		expect((await list()).count).toBe(6);
		const projects = await contacts(folder, 'project', 'list', '--json');
		expect(JSON.parse(projects.stdout)).toMatchObject([{ code: 'demo', state: 'enabled', live_keys: 1 }]);
	});

	test('lets "contacts" find its database while it runs', async () => {
		expect(await contacts(folder, 'subscription', 'start', '77')).toMatchObject({ code: 0, stderr: '' });
		expect(await contacts(folder, 'migrate')).toMatchObject({ code: 0, stdout: 'The schema is up to date.\n' });
	});

	test('has a database whose owner is no superuser', async () => {
		const { findings } = JSON.parse((await contacts(folder, 'doctor', '--json')).stdout) as { findings: object[] };
		const message = expect.stringContaining('belong to contacts_owner');
		expect(findings).toContainEqual({ check: 'owner', state: 'ok', message });
	});

	test('keeps its secrets from other users', () => {
		for (const name of ['password', 'database.json']) expect(statSync(join(folder, name)).mode & 0o077).toBe(0);
		expect(statSync(join(folder, 'postgres')).mode & 0o077).toBe(0);
	});

	test('a second start on the same folder fails with one line, and does not affect the first', async () => {
		const second = await launch(folder);
		expect(await second.exit).toBe(1);
		expect(second.stderr()).toBe(`It runs already on ${folder}: stop that one first, or set another LOCAL_DATA_DIR.\n`);
		expect((await list()).count).toBe(6);
		expect((await contacts(folder, 'project', 'list')).code).toBe(0);
	});
});

/** Each of these tests depends on the previous one. */
describe('a restart', () => {
	const stopInOrder = async (...signals: NodeJS.Signals[]) => {
		const parts = partsOf(running);
		expect(await remainsOf(parts)).toHaveLength(6);
		for (const signal of signals) running.kill(signal);
		expect(await running.exit).toBe(0);
		expect(running.stdout()).toMatch(/Stopping \.\.\.\nStopped\.\n$/);
		const lines = running.stderr().trimEnd().split('\n');
		expect(lines.filter((line) => !line.startsWith('{'))).toEqual([]);
		// The services had time to end by themselves.
		const stopped = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'stopped');
		expect(stopped.map(({ name }) => name).sort()).toEqual(['company-contacts', 'personal-contacts']);
		expect(await remainsOf(parts)).toEqual([]);
		expect(readdirSync(folder).sort()).toEqual(['password', 'postgres']);
		expect(existsSync(join(folder, 'postgres', 'postmaster.pid'))).toBe(false);
	};

	test('SIGTERM stops everything in order, exit 0, and leaves no process, port or lock behind', async () => {
		const changed = await fetch(
			`http://127.0.0.1:${running.ports.personal}/api/personal_contacts?project=demo&api_key=demo-key`,
			{
				method: 'POST',
				headers: { 'content-type': 'application/json' },
				body: '{"chat_id":4242,"name":"Kept"}',
			},
		);
		expect(await changed.json()).toEqual({ ok: 'saved' });
		expect((await contacts(folder, 'project', 'create', 'mine')).code).toBe(0);
		const file = join(folder, '..', 'list.csv');
		writeFileSync(file, 'bitrix_id,company_ids,name\n1002,1,Mine\n');
		expect((await contacts(folder, 'import', file)).code).toBe(0);
		await stopInOrder('SIGTERM');
	});

	test('"contacts" says what to do when nothing runs', async () => {
		expect(await contacts(folder, 'project', 'list')).toEqual({
			code: 1,
			stdout: '',
			stderr: 'error: There is no database: set DATABASE_URL, or run "npx -y pnpm@12 start" in another terminal.\n',
		});
	});

	test('keeps all data, and does not add the demo again', async () => {
		running = await launch(folder);
		await running.ready();
		const { count, data } = await list();
		expect(count).toBe(6);
		expect(data.find(({ bitrix_id }) => bitrix_id === 1002)).toMatchObject({ name: 'Mine', phone: '+442079460101' });
		const projects = await contacts(folder, 'project', 'list', '--json');
		expect(JSON.parse(projects.stdout)).toMatchObject([{ code: 'demo', live_keys: 1 }, { code: 'mine' }]);
		const subscriptions = await contacts(folder, 'subscription', 'list', '77', '--json');
		expect(JSON.parse(subscriptions.stdout)).toMatchObject([{ chat_id: 77, state: 'active' }]);
		const [, saving = ''] = curlLines();
		expect(await paste(saving.replace('5550001', '77'))).toEqual({ ok: 'skipped' });
	});

	test('SIGINT also stops everything in order, even when it is sent twice, as by a terminal and a package manager', async () => {
		await stopInOrder('SIGINT', 'SIGINT');
	});

	test('prints no credentials when the demo’s key is revoked', async () => {
		running = await launch(folder);
		await running.ready();
		const [{ id }] = JSON.parse((await contacts(folder, 'key', 'list', 'demo', '--json')).stdout);
		await contacts(folder, 'key', 'revoke', String(id));
		expect(await running.end('SIGTERM')).toBe(0);

		running = await launch(folder);
		await running.ready();
		expect(running.stdout()).toContain('No demo credentials here.');
		expect(running.stdout()).not.toContain('demo-key');
		const keys = JSON.parse((await contacts(folder, 'key', 'list', 'demo', '--json')).stdout);
		expect(keys).toMatchObject([{ id, state: 'revoked' }]);
	});
});
