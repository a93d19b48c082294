import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { saveCompanyContacts } from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import { service as companyContacts } from '@contacts/company-contacts/app.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { root } from '../docs/pages.js';

let folder: string;
let app: TestApp;

test.beforeAll(async () => {
	folder = await mkdtemp(join(tmpdir(), 'contacts-client-'));
	await addProject(database.sql, 'partner', 'partner-key');
	await saveCompanyContacts(database.sql, [
		{ bitrix_id: 1, name: 'Ann', company_ids: ['11'] },
		{ bitrix_id: 2, name: 'Bob', company_ids: [] },
	]);
	app = await startTestApp(companyContacts, database.url);
});
afterAll(async () => {
	await app?.close();
	if (folder) await rm(folder, { recursive: true, force: true });
});

/** Runs a program as a reader of the documentation does, without the environment of this test's package manager. */
async function run(cwd: string, program: string, ...args: string[]): Promise<string> {
	const own = /^(npm_|pnpm_|NODE_ENV$|NODE_PATH$|INIT_CWD$|VITEST)/i;
	const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !own.test(name)));
	// Otherwise the clone would find the compiler of this repository.
	env.PATH = env.PATH?.split(delimiter)
		.filter((path) => !path.startsWith(root))
		.join(delimiter);
	const { stdout } = await promisify(execFile)(program, args, { cwd, env, maxBuffer: 64 * 1024 * 1024 });
	return stdout;
}

/** A clone of the repository with uncommitted changes, and without anything installed or built. */
async function cloneRepository(): Promise<string> {
	const clone = join(folder, 'clone');
	await run(folder, 'git', 'clone', '--quiet', '--no-hardlinks', root, clone);
	const changed = await run(root, 'git', 'ls-files', '-z', '--modified', '--others', '--exclude-standard');
	const gone = new Set((await run(root, 'git', 'ls-files', '-z', '--deleted')).split('\0'));
	for (const path of new Set(changed.split('\0').filter(Boolean))) {
		if (gone.has(path)) {
			await rm(join(clone, path), { force: true });
			continue;
		}
		await mkdir(dirname(join(clone, path)), { recursive: true });
		await copyFile(join(root, path), join(clone, path));
	}
	return clone;
}

/** A partner's program. */
const program = `import { createCompanyContactsClient } from '@contacts/client';

const client = createCompanyContactsClient({ baseUrl: process.argv[2], project: 'partner', apiKey: 'partner-key' });
const copied = [];
const store = { readCursor: () => undefined, apply: ({ changes }) => void copied.push(...changes) };
const applied = await client.keepCopy(store);
const { contacts: listed } = await client.list({ companyId: 11 });
const aborted = await client.list({ signal: AbortSignal.abort() }).catch(({ name }) => name);
process.stdout.write(JSON.stringify({ listed, aborted, applied, copied: copied.map(({ contact }) => contact.bitrix_id) }));
`;

test('a client that is packed in a fresh clone and installed into a new project lists, copies and can be aborted', async () => {
	const clone = await cloneRepository();
	await run(clone, 'npx', '-y', 'pnpm@12', 'install', '--frozen-lockfile', '--prefer-offline');
	await run(clone, 'npx', '-y', 'pnpm@12', '--filter', '@contacts/client', 'pack', '--pack-destination', folder);
	const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz')) ?? '';

	const project = join(folder, 'project');
	await mkdir(project);
	await writeFile(join(project, 'package.json'), '{"name":"partner","private":true,"type":"module"}');
	await run(project, 'npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', join(folder, archive));
	await writeFile(join(project, 'main.js'), program);
	expect(JSON.parse(await run(project, process.execPath, 'main.js', app.url))).toEqual({
		listed: [expect.objectContaining({ bitrix_id: 1, name: 'Ann', company_ids: '11' })],
		aborted: 'AbortError',
		applied: 2,
		copied: [1, 2],
	});

	const installed = join(project, 'node_modules/@contacts/client');
	expect((await readdir(installed)).sort()).toEqual(['LICENSE', 'README.md', 'dist', 'examples', 'package.json']);
	expect(JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'))).not.toHaveProperty('dependencies');
	const files = await readdir(join(installed, 'dist'), { recursive: true });
	expect(files).toContain('index.d.ts');
	// It runs in a bundle, where there is no module of Node.js and no file beside it.
	for (const file of files.filter((name) => name.endsWith('.js')))
		expect(await readFile(join(installed, 'dist', file), 'utf8')).not.toMatch(/['"]node:|import\.meta|\bprocess\b/);
}, 600_000);
