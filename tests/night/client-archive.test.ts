import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { saveCompanyContacts } from '@contacts/common/company-contacts/save-company-contacts.sql.js';
import { service as companyContacts } from '@contacts/company-contacts/app.js';
import { addProject, startTestApp, type TestApp } from '@contacts/testing/app.js';
import { database, test } from '@contacts/testing/test.js';
import { afterAll, expect, onTestFinished } from 'vitest';
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

/** A partner's program. Each run continues the copy in a file. */
const program = `import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createCompanyContactsClient } from '@contacts/client';

const [baseUrl] = process.argv.slice(2);
const client = createCompanyContactsClient({ baseUrl, project: 'partner', apiKey: 'partner-key' });
const read = () => (existsSync('copy.json') ? JSON.parse(readFileSync('copy.json', 'utf8')) : { ids: [] });
const store = {
	readCursor: () => read().cursor,
	apply({ changes, cursor, reset }) {
		const ids = new Set(reset ? [] : read().ids);
		for (const { deleted, contact } of changes) deleted ? ids.delete(contact.bitrix_id) : ids.add(contact.bitrix_id);
		writeFileSync('copy.json', JSON.stringify({ ids: [...ids], cursor }));
	},
};

const applied = await client.keepCopy(store);
const first = await client.list({ companyId: 11 });
const pages = [];
for await (const { changes } of client.changes({ limit: 1 })) pages.push(changes.length);
const aborted = await client.list({ signal: AbortSignal.abort() }).catch(({ name }) => name);
const printed = { listed: first.contacts, pages, aborted, applied, copied: read().ids };
process.stdout.write(JSON.stringify(printed));
`;

test('a client that is packed in a fresh clone and installed into a new project lists, keeps a copy through restarts and a restore, waits for a token, and can be aborted', async () => {
	const clone = await cloneRepository();
	await run(clone, 'npx', '-y', 'pnpm@12', 'install', '--frozen-lockfile', '--prefer-offline');
	await run(clone, 'npx', '-y', 'pnpm@12', '--filter', '@contacts/client', 'pack', '--pack-destination', folder);
	const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz')) ?? '';

	const project = join(folder, 'project');
	await mkdir(project);
	await writeFile(join(project, 'package.json'), '{"name":"partner","private":true,"type":"module"}');
	await run(project, 'npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', join(folder, archive));
	await writeFile(join(project, 'main.js'), program);
	const main = async (url: string) => JSON.parse(await run(project, process.execPath, 'main.js', url));
	const ann = expect.objectContaining({ bitrix_id: 1, name: 'Ann', company_ids: '11' });
	const printed = { listed: [ann], pages: [1, 1], aborted: 'AbortError' };
	expect(await main(app.url)).toEqual({ ...printed, applied: 2, copied: [1, 2] });

	const environment = { RATE_LIMIT_BURST: '1', RATE_LIMIT_PER_SECOND: '1' };
	const limited = await startTestApp(companyContacts, database.url, { environment });
	onTestFinished(() => limited.close());
	expect(await main(limited.url)).toEqual({ ...printed, applied: 0, copied: [1, 2] });
	expect(limited.log.join('')).toContain('"status":429');

	await database.sql`select begin_company_contacts_epoch()`;
	await database.sql`delete from company_contacts where bitrix_id = 2`;
	const list = '/api/company_contacts.list?project=partner&api_key=partner-key';
	await expect.poll(async () => (await app.fetch(list)).json()).toMatchObject({ count: 1 });
	expect(await main(app.url)).toEqual({ ...printed, pages: [1], applied: 1, copied: [1] });
	expect(app.log.join('')).toContain('"status":410');

	const installed = join(project, 'node_modules/@contacts/client');
	expect((await readdir(installed)).sort()).toEqual(['LICENSE', 'README.md', 'dist', 'examples', 'package.json']);
	expect(JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'))).not.toHaveProperty('dependencies');
	const files = await readdir(join(installed, 'dist'), { recursive: true });
	expect(files).toContain('index.d.ts');
	// It runs in a bundle, where there is no module of Node.js and no file beside it.
	for (const file of files.filter((name) => name.endsWith('.js')))
		expect(await readFile(join(installed, 'dist', file), 'utf8')).not.toMatch(/['"]node:|import\.meta|\bprocess\b/);
}, 600_000);
