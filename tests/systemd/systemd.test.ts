import { waitUntil } from '@contacts/testing/wait-until.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pageAt } from '../docs/pages.js';
import { Machine, postgresVersion } from './machine.js';

const processes = ['contacts-personal', 'contacts-company', 'contacts-sync', 'contacts-gateway'];
const database = `postgresql@${postgresVersion()}-main`;
const machine = new Machine();
let key: string;

/** The status of a list that is requested through the gateway. */
const list = () =>
	machine.run(`curl --silent --output /dev/null --write-out '%{http_code}' \
		'http://127.0.0.1:8080/api/company_contacts.list?project=acme&api_key=${key}' || true`);
const states = () => processes.map((unit) => machine.show(unit, 'ActiveState'));
/** For a failure: what the units have reported last. */
const journal = () => machine.run("journalctl --unit='contacts-*' --lines=60");
const allActive = processes.map(() => 'active');

// As docs/operators.md says: from the user and the units to the first client.
beforeAll(async () => {
	await machine.boot();
	machine.run(`pg_createcluster ${postgresVersion()} main && systemctl enable --now postgresql ${database}`);
	machine.run(
		'systemd-run --unit=portal --setenv=PORT=4000 node /opt/contacts/packages/bitrix24-stand-in/dist/main.js',
	);
	const webhook = await waitUntil(
		() => /"webhookUrl":"([^"]+)"/.exec(machine.run('journalctl --unit=portal --output=cat'))?.[1],
		{ timeoutMs: 30_000 },
	);
	const blocks = pageAt('docs/operators.md').blocks.map(({ text }) => text);
	const at = (command: string) => blocks.findIndex((text) => text.includes(command));
	const [environment, start, client] = [
		at('systemd/new-env.sh'),
		at('systemctl enable --now'),
		at('contacts_as operator doctor'),
	];
	for (const block of blocks.slice(environment, start)) machine.run(block);
	machine.run(`sed -i 's#^BITRIX24_WEBHOOK_URL=.*#BITRIX24_WEBHOOK_URL=${webhook}#' /etc/contacts/sync.env`);
	machine.run(`${blocks[start]}\nsystemctl enable --now contacts-sync`);
	key = machine.run(String(blocks[client])).split('\n').at(-1) as string;
});
afterAll(() => machine.remove());

test('every process runs, hardened, as a user who may do nothing else, and a partner gets a list', async () => {
	await expect.poll(list).toBe('200');
	expect(states(), journal()).toEqual(allActive);
	expect(machine.show('contacts-migrate', 'Result')).toBe('success');
	for (const unit of processes) {
		const status = machine.run(`cat /proc/${machine.show(unit, 'MainPID')}/status`);
		const field = (name: string) => new RegExp(`^${name}:\\t(.*)$`, 'm').exec(status)?.[1];
		// The gateway may listen on ports below 1024 (CAP_NET_BIND_SERVICE).
		const capabilities = unit === 'contacts-gateway' ? '0000000000000400' : '0000000000000000';
		expect([unit, field('CapBnd'), field('NoNewPrivs'), field('Seccomp')]).toEqual([unit, capabilities, '1', '2']);
		expect(field('Uid')?.split('\t')[0], unit).toBe(machine.run('id --user contacts'));
	}
});

test('a process that is killed restarts, and systemd never gives up', async () => {
	const killed = processes.map((unit) => machine.show(unit, 'MainPID'));
	machine.run(`kill -KILL ${killed.join(' ')}`);
	const notRestarted = () => processes.filter((unit, i) => ['0', killed[i]].includes(machine.show(unit, 'MainPID')));
	await expect.poll(notRestarted).toEqual([]);
	await expect.poll(list).toBe('200');
	expect(states(), journal()).toEqual(allActive);
	// By default five starts within ten seconds are the limit.
	expect(processes.map((unit) => machine.show(unit, 'StartLimitIntervalUSec'))).toEqual(processes.map(() => '0'));
});

test('the nightly backup can be restored, and reports its success to a node exporter whose folder belongs to root', () => {
	expect(machine.show('contacts-backup.timer', 'NextElapseUSecRealtime')).toMatch(/ 02:\d\d:\d\d /);
	machine.run('mkdir --parents /var/lib/prometheus/node-exporter');
	machine.run(`systemctl start ${machine.show('contacts-backup.timer', 'Unit')}`);
	expect(machine.run('cat /var/lib/prometheus/node-exporter/contacts.prom')).toMatch(/_timestamp_seconds \d{10}$/);
	const restored = machine.run(`
		su postgres -c 'createdb --owner=contacts_owner restored'
		set -a; . /etc/contacts/owner.env; DATABASE_URL=\${DATABASE_URL%/contacts}/restored
		for command in migrate "restore --json /var/lib/contacts-backup/contacts-"*; do
			node /opt/contacts/tools/contacts/dist/main.js $command
		done`);
	expect(restored).toContain('"rows"');
});

test('a stopped process ends by itself, within its time', () => {
	machine.run(`systemctl stop ${processes.join(' ')}`);
	expect(
		processes.map((unit) => machine.show(unit, 'Result')),
		journal(),
	).toEqual(processes.map(() => 'success'));
	machine.run(`systemctl start ${processes.join(' ')}`);
});

test('after a reboot everything starts when the database has, however long that takes', async () => {
	const until = 'until [ -e /run/database-may-start ]; do sleep 0.2; done';
	machine.run(`
		mkdir /etc/systemd/system/postgresql@.service.d
		printf '[Service]\\nExecStartPre=/bin/sh -c "${until}"\\n' >/etc/systemd/system/postgresql@.service.d/slow.conf`);
	await machine.shutDown();
	await machine.boot();
	await expect.poll(() => machine.show(database, 'ActiveState')).toBe('activating');
	expect(machine.show('contacts-company', 'ActiveState')).toBe('inactive');
	machine.run('touch /run/database-may-start');
	await expect.poll(states).toEqual(allActive);
	await expect.poll(list).toBe('200');
});
