import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type RoleUser, urlAs } from '@contacts/common/database/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, beforeAll, expect } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' }).trim();

/** The last release before this commit. Before the first release: the commit before the newest migration. */
function previousRelease(): string {
	try {
		return git('describe', '--tags', '--match', 'v*', '--abbrev=0', 'HEAD^');
	} catch {
		return `${git('log', '-1', '--format=%H', '--diff-filter=A', '--', 'packages/common/migrations')}^`;
	}
}

let folder: string;
const running: RunningProcess[] = [];

beforeAll(async () => {
	folder = mkdtempSync(join(tmpdir(), 'contacts-previous-'));
	execFileSync('sh', ['-c', 'git archive "$1" | tar --extract --directory "$2"', 'sh', previousRelease(), folder], {
		cwd: root,
	});
	// Its types were checked when it was released.
	for (const command of [
		['install', '--frozen-lockfile', '--prefer-offline'],
		['exec', 'tsc', '-b', '--noCheck', 'services/personal-contacts', 'services/company-contacts', 'tools/contacts'],
	]) {
		const step = startProcess('npx', ['-y', 'pnpm@12', ...command], { cwd: folder });
		expect(await step.exit, step.output()).toBe(0);
	}
}, 300_000);
afterAll(async () => {
	await Promise.all(running.map((each) => each.stop('SIGKILL')));
	if (folder) rmSync(folder, { recursive: true, force: true });
});

async function start(program: string, role: RoleUser): Promise<string> {
	const service = startProcess(process.execPath, [join(folder, program)], {
		env: { DATABASE_URL: urlAs(database.url, role, rolePassword), PORT: '0' },
	});
	running.push(service);
	return (await service.waitForLine(/Server listening at (http:[^"]+)"/))[1] as string;
}

async function contacts(...args: string[]): Promise<string> {
	const command = startProcess(process.execPath, [join(folder, 'tools/contacts/dist/main.js'), ...args], {
		env: environmentOf({ DATABASE_URL: database.url }),
	});
	expect(await command.exit, command.output()).toBe(0);
	return command.stdout();
}

test('the previous release works on this release’s schema, so a rollback needs no schema change', async () => {
	await addProject(database.sql, 'bot', 'bot-key');
	await database.sql`insert into company_contacts (bitrix_id, company_ids, name) values (5, '{7,1}', 'Somebody')`;
	const [personal, company] = [
		await start('services/personal-contacts/dist/main.js', 'personal-contacts'),
		await start('services/company-contacts/dist/main.js', 'company-contacts'),
	];
	const query = 'project=bot&api_key=bot-key';

	const saved = await fetch(`${personal}/api/personal_contacts?${query}`, {
		method: 'POST',
		headers: { 'content-type': 'application/json' },
		body: JSON.stringify({ chat_id: 1, name: 'Old release', birth_date: '1990-02-28' }),
	});
	expect([saved.status, await saved.json()]).toEqual([200, { ok: 'saved' }]);
	const listed = await fetch(`${company}/api/company_contacts.list?${query}&company_id=1`);
	expect(await listed.json()).toMatchObject({
		count: 1,
		data: [{ bitrix_id: 5, company_ids: '7,1', name: 'Somebody' }],
	});
	for (const url of [personal, company]) expect((await fetch(`${url}/health/ready`)).status).toBe(200);

	expect(await contacts('migrate')).toContain('The schema is up to date.');
	await contacts('project', 'create', 'made-by-the-old-release');
	expect(await contacts('key', 'create', 'made-by-the-old-release')).toMatch(/^cck_/);
	expect(await database.sql`select name, to_char(birth_date, 'YYYY-MM-DD') as born from personal_contacts`).toEqual([
		{ name: 'Old release', born: '1990-02-28' },
	]);
});
