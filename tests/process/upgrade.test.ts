import { once } from 'node:events';
import { chmodSync, existsSync, lstatSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { describe, expect, test } from 'vitest';
import { hostile, machine, running, tooFew, upgraded } from './upgrade-machine.js';

// operations/upgrade.sh with a stub in place of Docker. tests/compose runs the script with the containers.

describe('operations/upgrade.sh', () => {
	test.each([
		[1, ''],
		[2, 'COMPANY_CONTACTS_REPLICAS=2\nPERSONAL_CONTACTS_REPLICAS=2\n'],
	])('replaces each of %i replicas, and there are never fewer that serve', (replicas, settings) => {
		const it = machine(`${settings}CONTACTS_VERSION=0.1.0\n`, replicas);
		expect(it.upgrade('0.2.0')).toMatchObject({ status: 0 });
		expect(it.containers()).toEqual(running('0.2.0', replicas));
		expect(it.text()).toBe(`${settings}CONTACTS_VERSION=0.2.0\n`);
		expect(tooFew(it)).toBe(false);
	});

	test('changes only the version in .env, and keeps every other byte, its mode, and that it is a link', () => {
		const it = machine(hostile);
		const [link, file] = [join(it.cwd, '.env'), join(it.cwd, 'elsewhere.env')];
		renameSync(link, file);
		symlinkSync('elsewhere.env', link);
		chmodSync(file, 0o640);
		expect(it.upgrade('0.2.0')).toMatchObject({ status: 0 });
		expect(it.text()).toBe(upgraded);
		expect([lstatSync(link).isSymbolicLink(), statSync(file).mode & 0o777]).toEqual([true, 0o640]);
		expect(it.upgrade('0.1.0')).toMatchObject({ status: 0 });
		expect(it.text()).toBe(hostile);
	});

	test.each([
		['A=1\n', 'A=1\nCONTACTS_VERSION=0.2.0\n'],
		['A=1\\c', 'A=1\\c\nCONTACTS_VERSION=0.2.0\n'],
		['', 'CONTACTS_VERSION=0.2.0\n'],
		[undefined, 'CONTACTS_VERSION=0.2.0\n'],
	])('adds the version to .env where it has none: %j', (before, after) => {
		const it = machine(before);
		expect(it.upgrade('0.2.0')).toMatchObject({ status: 0 });
		expect(it.text()).toBe(after);
		expect(statSync(join(it.cwd, '.env')).mode & 0o777).toBe(0o600);
	});

	test('changes nothing when .env sets the version once more, as Compose would go on with that one', () => {
		const text = 'CONTACTS_VERSION=0.1.0\nexport CONTACTS_VERSION=0.1.0\n';
		const it = machine(text);
		expect(it.upgrade('0.2.0')).toMatchObject({ status: 1, output: expect.stringContaining('CONTACTS_VERSION twice') });
		expect([it.text(), it.containers()]).toEqual([text, running('0.1.0')]);
	});

	test.each(['v0/2', '', '-x', '.1', '0.2.0 0.3.0', '0.2.0\nX=1', 'é', '$(id)', '\\1'])(
		'refuses %j, which can be no version, and changes nothing',
		(version) => {
			const it = machine(hostile);
			expect(it.upgrade(version)).toMatchObject({ status: 2 });
			expect([it.text(), it.containers()]).toEqual([hostile, running('0.1.0')]);
		},
	);

	test.each([[[]], [['0.2.0', '0.3.0']]])('refuses %j, and asks for one version', (args) => {
		const it = machine(hostile);
		expect(it.upgrade(args)).toMatchObject({ status: 2 });
		expect(it.text()).toBe(hostile);
	});

	test.each([
		['a version without an image', '9.9.9', {}],
		['a migration that fails', '0.2.0', { MIGRATION: '1' }],
		['a replica of company-contacts that can’t serve', '0.2.0', { UNHEALTHY: 'company-contacts-0.2.0' }],
		['a replica of personal-contacts that can’t serve', '0.2.0', { UNHEALTHY: 'personal-contacts-0.2.0' }],
	])('leaves .env and what runs as they are after %s', (_, version, variables) => {
		const it = machine(hostile);
		expect(it.upgrade(version, variables)).toMatchObject({ status: 1 });
		expect([it.text(), it.containers(), tooFew(it)]).toEqual([hostile, running('0.1.0'), false]);
	});

	test('shows the end of the logs of the migration and of a replica that can’t serve', () => {
		const { output } = machine('').upgrade('0.2.0', { UNHEALTHY: 'company-contacts-0.2.0' });
		expect(output).toMatch(/^log of \d\S+\nlog of migration\nThe upgrade failed\. What served before still runs\.$/m);
	});

	test('takes the number of replicas from .env, and removes what is unhealthy or too many', () => {
		const it = machine('CONTACTS_VERSION=0.1.0\n', 3);
		writeFileSync(join(it.cwd, 'containers/company-contacts-4'), 'company-contacts 0.2.0 unhealthy\n');
		writeFileSync(join(it.cwd, 'containers/personal-contacts-0'), 'personal-contacts 0.2.0 unhealthy\n');
		expect(it.upgrade('0.2.0', { SERVING: '1' })).toMatchObject({ status: 0 });
		expect([it.containers(), tooFew(it)]).toEqual([running('0.2.0'), false]);
	});

	test.each(['1.29.2', '2.9.0', '2.19.1', 'v2.25.9'])(
		'refuses Docker Compose %s, and names what it needs',
		(version) => {
			const it = machine(hostile);
			const refused = it.upgrade('0.2.0', { COMPOSE: version });
			expect(refused).toMatchObject({ status: 1, output: expect.stringContaining('2.26 or newer') });
			expect(it.text()).toBe(hostile);
		},
	);

	test.each(['2.26.1', 'v2.30.3', '2.40.3-3', '2.100.0', '5.0.1'])('accepts Docker Compose %s', (version) => {
		expect(machine(hostile).upgrade('0.2.0', { COMPOSE: version })).toMatchObject({ status: 0 });
	});

	test('lets only one run at a time change a folder', async () => {
		const it = machine(hostile);
		const first = it.start(['0.2.0'], { HOLD: 'yes' });
		const ended = once(first, 'exit');
		await waitUntil(() => existsSync(join(it.cwd, 'held')), { timeoutMs: 20_000 });
		expect(it.upgrade('0.3.0')).toMatchObject({ status: 1, output: expect.stringContaining('Another upgrade') });
		writeFileSync(join(it.cwd, 'released'), '');
		expect((await ended)[0]).toBe(0);
		expect([it.text(), it.containers()]).toEqual([upgraded, running('0.2.0')]);
	});

	test('leaves .env and what runs as they are when the disk is full', () => {
		const long = hostile + '#'.repeat(4096);
		const it = machine(long);
		// A limit of the size of files fails a write as a full disk does.
		const shell = ['sh', '-c', `trap '' XFSZ; ulimit -f 1; exec sh "$@"`, 'sh'];
		expect(it.upgrade('0.2.0', {}, shell)).toMatchObject({ status: 1 });
		expect([it.text(), it.containers(), tooFew(it)]).toEqual([long, running('0.1.0'), false]);
	});
});
