import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '@contacts/local-postgres/ports.js';
import { createTestDatabase } from '@contacts/testing/database.js';
import { startProcess } from '@contacts/testing/process.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { makeRelease } from '../release.js';

const version = '99.0.0';
const release = sharedFolder();
const machine = sharedFolder();

beforeAll(() => {
	makeRelease(version, release);
	for (const archive of ['contacts', 'contacts-programs'])
		execFileSync('tar', ['--extract', '--file', join(release, `${archive}-${version}.tar.gz`), '--directory', machine]);
}, 1_200_000);

test('a release has the archives for both kinds of machines and the client, their checksums, and the notes', () => {
	expect(readdirSync(release).toSorted()).toEqual([
		'SHA256SUMS',
		`contacts-${version}.tar.gz`,
		`contacts-client-${version}.tgz`,
		`contacts-programs-${version}.tar.gz`,
		'notes.md',
	]);
	execFileSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: release });
	expect(readFileSync(join(release, 'SHA256SUMS'), 'utf8').trim().split('\n')).toHaveLength(3);
	expect(readFileSync(join(release, 'notes.md'), 'utf8').trim()).toBe('- Something.');
	expect(readdirSync(machine).toSorted()).toEqual([version, 'contacts']);
});

test('the compose file of a release names the images of its registry and builds none', () => {
	const compose = readFileSync(join(machine, 'contacts/docker-compose.yml'), 'utf8');
	expect(compose).toContain(`/company-contacts:\${CONTACTS_VERSION:-${version}}`);
	expect(compose.match(/\{CONTACTS_IMAGES:-[^}]*\}/g)).toContain('{CONTACTS_IMAGES:-registry.example.com/owner}');
	expect(compose).not.toMatch(/localhost\/contacts|build:|PULL_POLICY:-never/);
});

test('every user of a machine can read the programs, and only root can change them', () => {
	const modes = execFileSync('find', [join(machine, version), '!', '-type', 'l', '-printf', '%y%m\\n'], {
		encoding: 'utf8',
	});
	expect([...new Set(modes.trim().split('\n'))].filter((mode) => !/^(d755|f644|f755)$/.test(mode))).toEqual([]);
});

test('on a machine with Node.js and no other program, the archive migrates a database and serves', async () => {
	const database = await createTestDatabase('template0');
	onTestFinished(() => database.drop());
	const programs = join(machine, 'bin');
	mkdirSync(programs);
	symlinkSync(process.execPath, join(programs, 'node'));
	const env = { PATH: programs, DATABASE_URL: database.url };
	const contacts = (...args: string[]) => {
		const main = join(machine, version, 'tools/cli/dist/main.js');
		const { status, stdout, stderr } = spawnSync('node', [main, ...args], { cwd: '/', env, encoding: 'utf8' });
		expect(status, stdout + stderr).toBe(0);
		return stdout;
	};
	contacts('migrate', '--roles');
	contacts('project', 'create', 'acme');
	const key = contacts('key', 'create', 'acme').trim().split('\n').at(-1);

	for (const [program, path] of [
		['services/company-contacts', `/api/company_contacts.list?project=acme&api_key=${key}`],
		['services/personal-contacts', '/health/ready'],
	]) {
		const port = String(await freePort());
		const service = startProcess('node', ['dist/main.js'], {
			cwd: join(machine, version, String(program)),
			env: { ...env, HOST: '127.0.0.1', PORT: port },
		});
		onTestFinished(() => service.stop());
		const statusOf = async (each: string) =>
			fetch(`http://127.0.0.1:${port}${each}`).then(
				({ status }) => status,
				() => service.output(),
			);
		await expect.poll(() => statusOf(String(path))).toBe(200);
		expect(await statusOf('/docs')).toBe(200);
		const document = (await (await fetch(`http://127.0.0.1:${port}/openapi.json`)).json()) as {
			info: { version: string };
		};
		expect(document.info.version).toBe(version);
	}
});
