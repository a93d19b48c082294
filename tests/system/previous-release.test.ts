import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { createPersonalContactsClient, type PersonalContactsClient } from '@contacts/client';
import { addProject } from '@contacts/testing/app.js';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, beforeAll, expect } from 'vitest';
import { root } from '../docs/pages.js';
import { urlFor } from '../services.js';

/** The last release before this commit. Undefined before the first one. */
function previousRelease(): string | undefined {
	try {
		const args = ['describe', '--tags', '--match', 'v*', '--abbrev=0', 'HEAD^'];
		return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' }).trim();
	} catch {
		return undefined;
	}
}

const release = previousRelease();
/** The release's folder: that of this commit before the first release. */
const folder = release === undefined ? root : sharedFolder();
const running: RunningProcess[] = [];

beforeAll(async () => {
	if (release === undefined) return;
	execFileSync('sh', ['-c', 'git archive "$1" | tar --extract --directory "$2"', 'sh', release, folder], {
		cwd: root,
	});
	// Its types were checked when it was released.
	for (const command of [
		['install', '--frozen-lockfile', '--prefer-offline'],
		['exec', 'tsc', '-b', '--noCheck', 'services/personal-contacts', 'services/company-contacts', 'tools/cli'],
	]) {
		const step = startProcess('npx', ['-y', 'pnpm@12', ...command], { cwd: folder });
		expect(await step.exit, step.output()).toBe(0);
	}
}, 300_000);
afterAll(() => Promise.all(running.map((each) => each.stop('SIGKILL'))));

/** Starts a service of the release and of this commit. @returns their URLs */
const startBoth = (program: 'personal-contacts' | 'company-contacts') =>
	Promise.all(
		[folder, root].map(async (from) => {
			const service = startProcess(process.execPath, [join(from, 'services', program, 'dist/main.js')], {
				env: { DATABASE_URL: urlFor(program), PORT: '0' },
			});
			running.push(service);
			const [, url] = await service.waitForLine(/Server listening at (http:[^"]+)"/);
			expect((await fetch(`${url}/health/ready`)).status).toBe(200);
			return String(url);
		}),
	);

/** Runs the command of the release. */
async function contacts(...args: string[]): Promise<string> {
	const command = startProcess(process.execPath, [join(folder, 'tools/cli/dist/main.js'), ...args], {
		env: environmentOf({ DATABASE_URL: database.url }),
	});
	expect(await command.exit, command.output()).toBe(0);
	return command.stdout();
}

const query = 'project=bot&api_key=bot-key';

test(`${release ?? 'another process'} works beside this one on this release’s schema, so a rollback needs no schema change`, async () => {
	await addProject(database.sql, 'bot', 'bot-key');
	await database.sql`insert into company_contacts (bitrix_id, company_ids, name) values (5, '{7,1}', 'Somebody')`;
	const [personal, company] = await Promise.all([startBoth('personal-contacts'), startBoth('company-contacts')]);
	const [old, own] = personal.map((baseUrl) =>
		createPersonalContactsClient({ baseUrl, project: 'bot', apiKey: 'bot-key', attempts: 1 }),
	) as [PersonalContactsClient, PersonalContactsClient];

	for (const [name, client] of Object.entries({ one: old, other: own }))
		expect(await client.upsert({ chat_id: 1, name, birth_date: '1990-02-28' })).toBe('saved');
	const rows = await database.sql`select name, birth_date::text as born from personal_contacts`;
	expect(rows).toEqual([{ name: 'other', born: '1990-02-28' }]);
	for (const [reporting, active, saving, outcome] of [
		[old, true, own, 'skipped'],
		[own, false, old, 'saved'],
		[own, true, old, 'skipped'],
		[old, false, own, 'saved'],
	] as const) {
		await reporting.setDirectSubscription({ chat_id: 1, active });
		expect(await saving.upsert({ chat_id: 1 })).toBe(outcome);
	}

	const list = async (url: string) =>
		(await fetch(`${url}/api/company_contacts.list?${query}&company_id=1`)).json() as Promise<unknown>;
	const lists = () => Promise.all(company.map(list));
	const listed = (name: string) => ({ count: 1, data: [expect.objectContaining({ company_ids: '7,1', name })] });
	expect(await lists()).toEqual([listed('Somebody'), listed('Somebody')]);
	await database.sql`update company_contacts set name = 'Somebody else'`;
	await expect.poll(lists).toEqual([listed('Somebody else'), listed('Somebody else')]);

	expect(await contacts('migrate')).toContain('The schema is up to date.');
	await contacts('project', 'create', 'made-by-the-old-release');
	expect(await contacts('key', 'create', 'made-by-the-old-release')).toMatch(/^cck_/);
});
