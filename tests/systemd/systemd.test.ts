import { acceptedLines } from '@contacts/testing/environment-files.js';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { pageAt } from '../docs/pages.js';
import { makeRelease } from '../release.js';
import { attempt, attemptsOnFiles, attemptsOnProcess } from './attempts.js';
import { Machine, postgresVersion } from './machine.js';

const processes = ['contacts-personal', 'contacts-company', 'contacts-crm-sync', 'contacts-gateway'];
/** Units that end. */
const tasks = ['contacts-migrate', 'contacts-backup'];
const database = `postgresql@${postgresVersion()}-main`;
const version = '99.0.0';
const release = sharedFolder(0o755);
const machine = new Machine(release);
let key: string;

/** The status of a list that is requested through the gateway. */
const list = () =>
	machine.run(`curl --silent --output /dev/null --write-out '%{http_code}' \
		'http://127.0.0.1:8080/api/company_contacts.list?project=acme&api_key=${key}' || true`);
const states = () => processes.map((unit) => machine.show(unit, 'ActiveState'));
/** For a failure: what the units have reported last. */
const journal = () => machine.run("journalctl --unit='contacts-*' --lines=60");
const allActive = processes.map(() => 'active');

// As docs/deploy.md says: from the user and the units to the first client.
beforeAll(async () => {
	makeRelease(version, release);
	await machine.boot();
	machine.run(`pg_createcluster ${postgresVersion()} main && systemctl enable --now postgresql ${database}`);
	machine.run(`systemd-run --unit=crm node --input-type=module --eval "
		import { startStandIn } from '/srv/crm/packages/testing/dist/bitrix24/stand-in.js';
		const { webhookUrl } = await startStandIn({ contacts: [{ lastName: 'Carter' }] });
		console.log(webhookUrl);"`);
	const webhook = await waitUntil(
		() => /^http:\/\/127\.0\.0\.1:\S+$/m.exec(machine.run('journalctl --unit=crm --output=cat'))?.[0],
		{ timeoutMs: 30_000 },
	);
	const blocks = pageAt('docs/deploy.md').blocks.map(({ text }) => text);
	const at = (command: string) => blocks.findIndex((text) => text.includes(command));
	const [unpack, environment, start, client] = [
		at('tar --extract'),
		at('systemd/new-env.sh'),
		at('systemctl enable --now'),
		at('contacts_as operator doctor'),
	];
	machine.run(`cd /srv/release\n${String(blocks[unpack]).replaceAll('VERSION', version)}`);
	for (const block of blocks.slice(environment, start)) machine.run(block);
	machine.run(`sed -i 's#^BITRIX24_WEBHOOK_URL=.*#BITRIX24_WEBHOOK_URL=${webhook}#' /etc/contacts/crm-sync.env`);
	machine.run(`${blocks[start]}\nsystemctl enable --now contacts-crm-sync`);
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
		expect(field('Uid')?.split('\t')[0], unit).toBe(machine.run(`id --user ${unit}`));
	}
});

test('systemd reads each value as operations/with-env.sh does, which starts no process with a file that it refuses', async () => {
	const { text, values } = await acceptedLines();
	machine.run(`echo ${Buffer.from(text).toString('base64')} | base64 --decode >/run/some.env`);
	const printed = machine.run(
		'systemd-run --quiet --pipe --wait -p EnvironmentFile=/run/some.env env --null | base64 --wrap=0',
	);
	const pairs = Buffer.from(printed, 'base64')
		.toString()
		.split('\0')
		.filter((pair) => pair.startsWith('VALUE_'));
	expect(pairs.toSorted()).toEqual(
		Object.entries(values)
			.map((pair) => pair.join('='))
			.toSorted(),
	);

	machine.run('echo "BACKUP_KEEP_DAYS=30 # a month" >>/etc/contacts/backup.env');
	onTestFinished(() => void machine.run("sed -i '/# a month/d' /etc/contacts/backup.env"));
	const failed = machine.run(
		'systemctl start contacts-backup 2>&1 || journalctl --unit=contacts-backup --output=cat --lines=9',
	);
	expect(failed).toMatch(/^\/etc\/contacts\/backup\.env, line 7: write BACKUP_KEEP_DAYS='value'/m);
});

test('the machine has no clone and no package for development, and every program runs from the release', () => {
	const folders = machine.run('ls --almost-all /opt/contacts/current/').split('\n');
	expect(folders).not.toEqual(expect.arrayContaining(['.git']));
	expect(machine.run('find /opt/contacts -name typescript -o -name vitest -o -name "*.node"')).toBe('');
	for (const unit of processes.filter((name) => name !== 'contacts-gateway')) {
		const cwd = machine.run(`readlink /proc/${machine.show(unit, 'MainPID')}/cwd`);
		expect(cwd, unit).toMatch(/^\/opt\/contacts\/99\.0\.0\//);
	}
});

test('a release is replaced and rolled back by the link and restarts: only requests at the moment of a restart fail', async () => {
	const next = '99.0.1';
	// The same programs with another version.
	machine.run(`
		cp --archive /opt/contacts/${version} /opt/contacts/${next}
		find /opt/contacts/${next} -path '*/@contacts/common/package.json' -exec sed -i 's/"${version}"/"${next}"/' {} +`);
	const upgrade = pageAt('docs/run.md').blocks.find(({ text }) => text.includes('restart contacts-migrate'))?.text;
	const switchTo = (to: string) => {
		const lines = String(upgrade).replaceAll('0.2.0', to).split('\n').slice(1);
		const startedAt = performance.now();
		// As the page says: the next restart follows when the process before can serve.
		machine.run(
			lines
				.map((line) => {
					const [, port] = /restart contacts-(personal|company)/.test(line)
						? ['', line.endsWith('personal') ? 3001 : 3000]
						: [];
					const ready = `until curl --silent --fail --output /dev/null http://127.0.0.1:${port}/health/ready; do sleep 0.1; done`;
					return port === undefined ? line : `${line}\n${ready}`;
				})
				.join('\n'),
		);
		return (performance.now() - startedAt) / 1000;
	};
	machine.run(`cat >/run/load.sh <<'end'
		while [ ! -e /run/load-ends ]; do
			curl --silent --output /run/load.json --write-out '%{http_code} ' http://127.0.0.1:8080/openapi.json
			grep --only-matching --max-count=1 '"version":"[^"]*"' /run/load.json || echo
			rm --force /run/load.json
		done >>/run/load.log
end
		systemd-run --unit=load sh /run/load.sh`);
	const seconds = [next, version].map(switchTo);
	const responses = () => machine.run('cat /run/load.log').split('\n');
	await expect.poll(() => responses().at(-2)).toBe(`200 "version":"${version}"`);
	machine.run('touch /run/load-ends');
	expect(states(), journal()).toEqual(allActive);
	const lines = responses();
	const failed = lines.filter((line) => !line.startsWith('200 '));
	console.info(
		`upgrade ${seconds[0]?.toFixed(1)} s, rollback ${seconds[1]?.toFixed(1)} s, ${failed.length} of ${lines.length} requests failed`,
	);
	const versions = lines.flatMap((line) => /"version":"([^"]+)"/.exec(line)?.[1] ?? []);
	expect(versions.filter((each, i) => each !== versions[i - 1])).toEqual([version, next, version]);
	// The service is away, or the gateway is: nothing else happens.
	expect(failed.filter((line) => !/^(000|502|503) /.test(line))).toEqual([]);
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
		su postgres -c 'createdb --template=template0 --encoding=UTF8 --locale=C restored'
		su postgres -c 'psql --variable=ON_ERROR_STOP=1 --file=/opt/contacts/current/packages/migrations/owner.sql restored'
		set -a; . /etc/contacts/owner.env; DATABASE_URL=\${DATABASE_URL%/contacts}/restored
		pg_restore --schema=public --no-owner --no-acl --single-transaction --dbname="$DATABASE_URL" /var/lib/contacts-backup/contacts-*
		cd /opt/contacts/current
		node tools/cli/dist/main.js migrate
		. /etc/contacts/operator.env; DATABASE_URL=\${DATABASE_URL%/contacts}/restored
		node tools/cli/dist/main.js project list`);
	expect(restored).toContain('acme');
});

test('the user of a unit can read no other unit’s environment, files or backups, and send it no signal', async () => {
	onTestFinished(() => {
		machine.run(`
			rm --recursive --force /run/systemd/system/contacts-*.service.d
			systemctl daemon-reload
			systemctl stop ${tasks.join(' ')}
			systemctl start contacts-migrate`);
	});
	// The tasks end within seconds: here they wait before they begin, with the environment that they will have.
	for (const unit of tasks.toReversed()) {
		machine.run(`
			mkdir --parents /run/systemd/system/${unit}.service.d
			printf '[Service]\\nTimeoutStartSec=infinity\\nExecStartPre=/bin/sleep infinity\\n' >/run/systemd/system/${unit}.service.d/wait.conf
			systemctl daemon-reload
			systemctl restart --no-block ${unit}`);
		await expect.poll(() => machine.run(`cat /proc/${machine.show(unit, 'ControlPID')}/comm || true`)).toBe('sleep');
	}
	const units = [...processes, ...tasks].map((name) => ({
		name,
		user: machine.show(name, 'User'),
		pid: machine.show(name, tasks.includes(name) ? 'ControlPID' : 'MainPID'),
	}));
	const users = [...new Set(units.map(({ user }) => user)), 'nobody'];
	const environments = machine.run('ls /etc/contacts/*').split('\n');
	const backups = machine.run('ls /var/lib/contacts-backup/*').split('\n');
	expect([environments.length > 6, backups.length]).toEqual([true, 1]);

	const shared = attempt(machine, users, [
		'ls /etc/contacts',
		...attemptsOnFiles(environments, ['/etc/contacts']),
		...units.map(({ name }) => `systemctl show --all ${name} | grep --extended-regexp "postgres://|PASSWORD"`),
	]);
	const others = units.flatMap(({ name, user, pid }) =>
		attempt(
			machine,
			users.filter((each) => each !== user || units.filter((unit) => unit.user === user).length > 1),
			[
				...attemptsOnProcess(pid),
				...(name === 'contacts-backup' ? attemptsOnFiles(backups, ['/var/lib/contacts-backup']) : []),
				...(name === 'contacts-backup' ? ['ls /var/lib/contacts-backup'] : []),
				...(name === 'contacts-gateway'
					? attemptsOnFiles(['/run/contacts-gateway/nginx.conf'], ['/run/contacts-gateway'])
					: []),
			],
		),
	);
	expect([...shared, ...others].filter(({ status }) => status === 0)).toEqual([]);

	// The same attempts succeed for the user whose process or file it is. The gateway's process has a capability that its user
	// lacks outside of the unit.
	for (const { user, pid } of units.filter(({ name }) => name !== 'contacts-gateway')) {
		expect(attempt(machine, [user], attemptsOnProcess(pid)).filter(({ status }) => status !== 0)).toEqual([]);
	}
	expect(attempt(machine, ['contacts-backup'], attemptsOnFiles(backups, [])).map(({ status }) => status)).toEqual([0]);

	const environmentOf = (pid: string) => machine.run(`tr '\\0' '\\n' </proc/${pid}/environ`);
	const withOwner = units.filter(({ pid }) => environmentOf(pid).includes('contacts_owner'));
	expect(withOwner.map(({ name }) => name)).toEqual(['contacts-migrate']);
	const withPasswords = units.filter(({ pid }) => environmentOf(pid).includes('DATABASE_PASSWORD='));
	expect(withPasswords).toEqual([]);
	for (const { pid } of units) {
		expect(machine.run(`cat /proc/${pid}/limits`)).toMatch(/^Max core file size +0 +0 /m);
	}
});

test('only the gateway can tell company-contacts the address of a client, and it never runs without the rule of the firewall', async () => {
	/** The address that company-contacts logs for a request. */
	const clientOf = async (curl: string) => {
		const headers = machine.run(`curl --silent --show-error --dump-header - --output /dev/null ${curl}`);
		const [, id] = /^x-request-id: (\S+)/im.exec(headers) ?? [];
		const line = await waitUntil(
			() => machine.run(`journalctl --unit=contacts-company --output=cat | grep --fixed-strings '${id}' || true`),
			{
				timeoutMs: 20_000,
				intervalMs: 200,
				message: () => `company-contacts has logged no request ${id}:\n${headers}`,
			},
		);
		return (JSON.parse(line) as { client: string }).client;
	};
	const forged = '--header "X-Forwarded-For: 203.0.113.9"';
	const path = '/api/company_contacts.list';
	const connect = `curl --silent --show-error --output /dev/null --interface 127.0.0.80 ${forged} http://127.0.0.1:3000${path}`;
	const users = ['root', 'nobody', 'postgres', ...processes, ...tasks];
	const refused = users.filter((user) => user !== 'contacts-gateway');

	const limitConnections = 'nft --file /opt/contacts/current/gateway/connections.nft';
	for (const change of ['true', limitConnections, 'systemctl reload nftables', 'systemctl restart nftables']) {
		machine.run(change);
		machine.run('until curl --silent --fail --output /dev/null http://127.0.0.1:3000/health/live; do sleep 0.2; done');
		const attempts = attempt(machine, users, [connect]);
		expect(
			attempts.filter(({ status }) => status !== 0).map(({ user }) => user),
			change,
		).toEqual(refused);
	}
	expect(await clientOf(`${forged} http://127.0.0.1:3000${path}`)).toBe('127.0.0.1');
	expect(await clientOf(`--interface 127.0.0.9 ${forged} http://127.0.0.1:3000${path}`)).toBe('127.0.0.9');
	expect(await clientOf(`--interface 127.0.0.9 ${forged} http://127.0.0.1:8080${path}`)).toBe('127.0.0.9');

	const trusting = ['contacts-company', 'contacts-crm-sync'];
	machine.run('systemctl stop nftables');
	expect(trusting.map((unit) => machine.show(unit, 'ActiveState'))).toEqual(['inactive', 'inactive']);
	machine.run(`
		mv /etc/nftables.d/contacts-gateway.nft /etc/nftables.d/contacts-gateway.away
		sed --in-place=.kept /contacts/d /etc/nftables.conf
		systemctl start --no-block ${trusting.join(' ')}`);
	await expect.poll(() => trusting.filter((unit) => machine.show(unit, 'NRestarts') === '0')).toEqual([]);
	expect(trusting.map((unit) => machine.show(unit, 'MainPID'))).toEqual(['0', '0']);
	machine.run(`
		mv /etc/nftables.d/contacts-gateway.away /etc/nftables.d/contacts-gateway.nft
		mv /etc/nftables.conf.kept /etc/nftables.conf
		systemctl reload nftables`);
	await expect.poll(states).toEqual(allActive);
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
