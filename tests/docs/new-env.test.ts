import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, test } from 'vitest';
import { read, root } from './pages.js';

const needed = ['.env.example', 'operations', 'gateway', 'packages/migrations/owner.sql'];

test('operations/new-env.sh gives each default password of the compose file a random value, and never replaces .env', async () => {
	const folder = await temporaryFolder();
	for (const file of needed) cpSync(join(root, file), join(folder, file), { recursive: true });
	const [script, written] = [join(folder, 'operations/new-env.sh'), join(folder, '.env')];

	execFileSync('sh', [script]);
	const text = readFileSync(written, 'utf8');
	const withDefault = [...read('docker-compose.yml').matchAll(/\$\{([A-Z_]+):-local-only-/g)].map(([, name]) => name);
	const values = [...new Set(withDefault)].map((name) => new RegExp(`^${name}=([0-9a-f]{48})$`, 'm').exec(text)?.[1]);
	expect(values.length).toBeGreaterThan(5);
	expect(values).not.toContain(undefined);
	expect(new Set(values).size).toBe(values.length);
	expect(statSync(written).mode & 0o777).toBe(0o600);

	const again = spawnSync('sh', [script], { encoding: 'utf8' });
	expect([again.status, again.stderr]).toEqual([1, expect.stringMatching(/^There is a \.env already.*\n$/)]);
	expect(readFileSync(written, 'utf8')).toBe(text);
});

test('operations/new-env.sh writes beside its own compose file, whatever CDPATH leads elsewhere', async () => {
	const [folder, other] = [await temporaryFolder(), await temporaryFolder()];
	mkdirSync(join(other, 'operations'));
	for (const file of needed) cpSync(join(root, file), join(folder, file), { recursive: true });
	execFileSync('sh', ['operations/new-env.sh'], { cwd: folder, env: { PATH: process.env.PATH, CDPATH: other } });
	expect([existsSync(join(folder, '.env')), existsSync(join(other, '.env'))]).toEqual([true, false]);
});

test('whatever the umask of a clone was, containers can read what they mount, and nothing else becomes readable', async () => {
	const folder = await temporaryFolder();
	for (const file of needed) cpSync(join(root, file), join(folder, file), { recursive: true });
	mkdirSync(join(folder, 'operations/tls/private'));
	const secrets = ['operations/tls/private/key.pem', 'operations/redis/password'].map((file) => join(folder, file));
	for (const file of secrets) writeFileSync(file, 'secret');
	execFileSync('chmod', ['-R', 'go=', folder]);
	execFileSync('sh', ['-c', 'umask 077; sh operations/new-env.sh'], { cwd: folder });
	const files = ['docker-compose.yml', 'operations/tls/docker-compose.yml', 'operations/tls/ipv6.yml']
		.map(read)
		.join('\n');
	const mounted = [...files.matchAll(/(?:- |")(?:\$\{\w+:-)?(\.\/[\w./-]+)\}?:\//g)].map(([, path]) => String(path));
	expect(mounted.length).toBeGreaterThan(15);
	const closed = execFileSync(
		'find',
		[...mounted.filter((path) => existsSync(join(root, path))), '!', '-perm', '-004'],
		{
			cwd: folder,
			encoding: 'utf8',
		},
	);
	expect(closed).toBe('');
	for (const file of [...secrets, join(folder, '.env')]) expect([file, statSync(file).mode & 0o077]).toEqual([file, 0]);
});

/** Runs the script of the units in another folder than /etc/contacts. */
async function writeUnits(address: string) {
	const cwd = await temporaryFolder();
	const script = read('operations/systemd/new-env.sh').replace('cd /etc/contacts\n', '');
	const env = { PATH: process.env.PATH, DATABASE_ADDRESS: address };
	return { cwd, ...spawnSync('sh', ['-c', script], { cwd, env, encoding: 'utf8' }) };
}

test.each([
	['[fd00::5]:5432', 'fd00::5', '5432'],
	['db.internal:6000', 'db.internal', '6000'],
	['a:5432,[fd00::5]:5433', 'a,fd00::5', '5432,5433'],
])('operations/systemd/new-env.sh tells libpq where %s is', async (address, host, port) => {
	const { cwd, status } = await writeUnits(address);
	expect(status).toBe(0);
	const backup = readFileSync(join(cwd, 'backup.env'), 'utf8');
	expect([/^PGHOST=(.*)$/m.exec(backup)?.[1], /^PGPORT=(.*)$/m.exec(backup)?.[1]]).toEqual([host, port]);
	expect(readFileSync(join(cwd, 'company.env'), 'utf8')).toContain(`@${address}/contacts`);
});

test.each(['fd00::5', 'db.internal', '[fd00::5]', 'a:5432,b', ':5432', 'a:5432 '])(
	'operations/systemd/new-env.sh refuses "%s", and writes nothing',
	async (address) => {
		const { cwd, status, stderr } = await writeUnits(address);
		expect([status, stderr]).toEqual([1, expect.stringMatching(/^DATABASE_ADDRESS must be HOST:PORT[^\n]*\n$/)]);
		expect(readdirSync(cwd)).toEqual([]);
	},
);
