import { execFile } from 'node:child_process';
import { access, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { saveCompanyContacts } from '@contacts/common/contacts/save-company-contacts.sql.js';
import { service as companyContacts } from '@contacts/company-contacts/app.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect } from 'vitest';
import { root } from '../docs/pages.js';

const folder = sharedFolder();
let app: TestApp;

test.beforeAll(async () => {
	await addProject(database.sql, 'partner', 'partner-key');
	await saveCompanyContacts(database.sql, [
		{ bitrix_id: 1, name: 'Ann', company_ids: ['11'] },
		{ bitrix_id: 2, name: 'Bob', company_ids: null },
	]);
	app = await startTestApp(companyContacts, database.url);
});
afterAll(() => app?.close());

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
	const clone = join(folder, 'clone');
	await run(folder, 'git', 'clone', '--quiet', '--no-hardlinks', root, clone);
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
	expect((await readdir(installed)).sort()).toEqual([
		'LICENSE',
		'README.md',
		'dist',
		'examples',
		'package.json',
		'src',
	]);
	expect(JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'))).not.toHaveProperty('dependencies');
	const files = await readdir(join(installed, 'dist'), { recursive: true });
	expect(files).toContain('index.d.ts');
	const links = [...(await readFile(join(installed, 'README.md'), 'utf8')).matchAll(/\]\((?!\w+:)([^)#]+)/g)];
	expect(links.length).toBeGreaterThan(2);
	for (const [, link = ''] of links) await access(join(installed, link));
	for (const map of files.filter((name) => name.endsWith('.map'))) {
		const { sources } = JSON.parse(await readFile(join(installed, 'dist', map), 'utf8')) as { sources: string[] };
		for (const source of sources) await access(join(installed, 'dist', dirname(map), source));
	}
	// It runs in a bundle, where there is no module of Node.js and no file beside it.
	for (const file of files.filter((name) => name.endsWith('.js')))
		expect(await readFile(join(installed, 'dist', file), 'utf8')).not.toMatch(/['"]node:|import\.meta|\bprocess\b/);
}, 600_000);
