import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { environmentOf, startProcess } from '@contacts/testing/process.js';
import { temporaryFolder } from '@contacts/testing/temporary-folder.js';
import { expect, test } from 'vitest';

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
			GATEWAY_CONNECTIONS_PER_CLIENT: '500',
			GATEWAY_SOURCE_ADDRESS: '127.0.0.80',
			COMPANY_CONTACTS_ADDRESS: '127.0.0.1:3000',
			BITRIX24_EVENTS_ADDRESS: '',
		}),
	});
	expect(await gateway.exit, gateway.output()).toBe(0);
});
