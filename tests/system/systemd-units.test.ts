import { execFileSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createTestDatabase } from '@contacts/testing/database.js';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { database, test } from '@contacts/testing/test.js';
import { expect } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = join(root, 'operations/systemd');
const units = readdirSync(folder).filter((name) => /\.(service|timer)$/.test(name));

test('systemd-analyze verify accepts the units, and each unit that starts at boot has an [Install] section', async () => {
	const copies = await temporaryFolder();
	cpSync(folder, copies, { recursive: true });
	for (const unit of units) {
		const text = readFileSync(join(folder, unit), 'utf8')
			.replaceAll('/opt/contacts', root.replace(/\/$/, ''))
			.replaceAll('/usr/bin/node', process.execPath);
		writeFileSync(join(copies, unit), text);
		expect(text.includes('[Install]'), unit).toBe(unit !== 'contacts-backup.service');
	}
	const verify = startProcess('systemd-analyze', ['verify', '--man=no', ...units.map((unit) => join(copies, unit))], {
		env: environmentOf({ SYSTEMD_UNIT_PATH: `${copies}:` }),
	});
	const code = await verify.exit;
	const about = verify
		.output()
		.split('\n')
		.filter((line) => line.includes('contacts'));
	expect([code, about]).toEqual([0, []]);
});

test('every program and file that a unit names exists', () => {
	for (const unit of units.filter((name) => name.endsWith('.service'))) {
		const text = readFileSync(join(folder, unit), 'utf8');
		const [, directory = ''] = /^WorkingDirectory=\/opt\/contacts\/?(.*)$/m.exec(text) ?? [];
		const [, file = ''] = /^ExecStart=\S+ (\S+)/m.exec(text) ?? [];
		expect(() => readFileSync(join(root, directory, file)), `${unit}: ${file}`).not.toThrow();
	}
});

test('the gateway’s unit generates a configuration that nginx accepts', async () => {
	const gateway = startProcess('sh', [join(folder, 'gateway.sh'), '-t'], {
		env: environmentOf({
			RUNTIME_DIRECTORY: await temporaryFolder(),
			GATEWAY_PORT: '8080',
			GATEWAY_RESOLVER: '127.0.0.53',
			GATEWAY_CONNECTIONS_PER_CLIENT: '100',
			COMPANY_CONTACTS_ADDRESS: '127.0.0.1:3000',
			BITRIX24_EVENTS_ADDRESS: '',
		}),
	});
	expect(await gateway.exit, gateway.output()).toBe(0);
});

/** Runs the commands of the nightly backup's unit. */
async function backUp(url: string, backups: string, metrics: string) {
	const unit = readFileSync(join(folder, 'contacts-backup.service'), 'utf8');
	const commands = [...unit.matchAll(/^ExecStart(?:Pre|Post)?=[-+]*(.+)$/gm)].map(([, command]) => command);
	const script = startProcess('sh', ['-ec', commands.join('\n')], {
		cwd: root,
		env: environmentOf({ DATABASE_URL: url, BACKUP_DIRECTORY: backups, BACKUP_METRICS_DIRECTORY: metrics }),
	});
	const code = await script.exit;
	const reported = readFileSync(join(metrics, 'contacts.prom'), 'utf8');
	const [, successAt] = /^contacts_backup_last_success_timestamp_seconds (\d+)$/m.exec(reported) ?? [];
	expect(readdirSync(metrics)).toEqual(['contacts.prom']);
	return { code, output: script.output(), successAt };
}

/** Creates an empty file that is this old. */
function createOld(file: string, age: string): void {
	writeFileSync(file, '');
	execFileSync('touch', ['-d', `${age} ago`, file]);
}

test('the nightly backup is verified before older ones are deleted, and reports the time of its success', async () => {
	const [backups, metrics] = [await temporaryFolder(), await temporaryFolder()];
	const [old, recent] = [join(backups, 'contacts-old.backup'), join(backups, 'contacts-recent.backup')];
	createOld(old, '40 days');
	writeFileSync(recent, '');

	const unreachable = 'postgres://nobody@127.0.0.1:1/nothing';
	expect(await backUp(unreachable, backups, metrics)).toMatchObject({ code: 1, successAt: '0' });
	expect(readdirSync(backups).sort()).toEqual(['contacts-old.backup', 'contacts-recent.backup']);

	const { code, output, successAt } = await backUp(database.url, backups, metrics);
	expect(code, output).toBe(0);
	const [made, kept, ...others] = readdirSync(backups).sort();
	expect([kept, ...others]).toEqual(['contacts-recent.backup']);
	expect(successAt).toMatch(/^\d{10}$/);
	expect(await backUp(unreachable, backups, metrics)).toMatchObject({ code: 1, successAt });

	const other = await createTestDatabase();
	const restore = startProcess(
		process.execPath,
		[join(root, 'tools/contacts/dist/main.js'), 'restore', join(backups, String(made)), '--replace', '--yes'],
		{ env: environmentOf({ DATABASE_URL: other.url }) },
	);
	expect(await restore.exit, restore.output()).toBe(0);
	await other.drop();
});

test('the nightly backup is kept when only its record in the audit log fails, and what a killed one left is deleted', async () => {
	const [backups, metrics] = [await temporaryFolder(), await temporaryFolder()];
	createOld(join(backups, 'contacts-killed.backup.part'), '3 days');
	createOld(join(backups, 'contacts-killed.backup.part.1b671a64.part'), '3 days');
	createOld(join(backups, 'contacts-running.backup.part'), '3 hours');
	await database.sql`alter table audit_log add constraint refused check (action <> 'backup written') not valid`;
	const { code, output, successAt } = await backUp(database.url, backups, metrics);
	await database.sql`alter table audit_log drop constraint refused`;
	expect(code, output).toBe(1);
	const [made, ...others] = readdirSync(backups).sort();
	expect(made).toMatch(/^contacts-\d{8}T\d{6}Z\.backup$/);
	expect(others).toEqual(['contacts-running.backup.part']);
	// It is reported as a failure.
	expect(successAt).toBe('0');
});
