import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
	chmodSync,
	cpSync,
	existsSync,
	lstatSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmSync,
	statSync,
	symlinkSync,
	writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import { describe, expect, test } from 'vitest';
import { root } from '../docs/pages.js';

// operations/upgrade.sh with a stub in place of Docker. tests/compose runs the script with the containers.

const services = ['company-contacts', 'personal-contacts'];
const folder = sharedFolder();

/**
 * Keeps each container as a file with its service, version and health. A command of the script that the stub does not know ends
 * with 64. At each call it notes when a service has fewer healthy replicas than there should be.
 */
const stub = `#!/bin/bash -p
# Only Bash itself: other programs would take most of the time of these tests. With -p it does not read BASH_ENV.
cd "$FOLDER"; shopt -s nullglob
file=.env
[ "$1 $2" = 'compose --env-file' ] && { file=$3; shift 3; set -- compose "$@"; }
declare -A setting
if [ -e "$file" ]; then
  while IFS='=' read -r name value || [ -n "$name" ]; do
    [[ $name =~ ^(export )?([A-Z_]+)$ ]] && setting[\${BASH_REMATCH[2]}]=\${value//[^0-9a-zA-Z.]/}
  done <"$file"
fi
version=\${CONTACTS_VERSION:-\${setting[CONTACTS_VERSION]}}
company=\${setting[COMPANY_CONTACTS_REPLICAS]:-1} personal=\${setting[PERSONAL_CONTACTS_REPLICAS]:-1}
wanted() { case $1 in company-contacts) wanted=$company ;; *) wanted=$personal ;; esac; }
# The containers of a service, and how many are healthy.
look() {
  ids=() healthy=0
  for container in containers/*; do
    read -r service _ health <"$container"
    [ "$service" = "$1" ] || continue
    ids+=("\${container#*/}")
    [ "$health" = healthy ] && healthy=$((healthy + 1))
  done
}
create() {
  while look "$1"; [ "\${#ids[@]}" -lt "$2" ]; do
    health=healthy
    [ "$UNHEALTHY" = "$1-$version" ] && health=unhealthy
    echo "$1 $version $health" >"containers/$EPOCHREALTIME-$RANDOM"
    [ $health = healthy ] || exit 1
  done
}
for each in company-contacts personal-contacts; do
  look $each
  [ $healthy -ge "$SERVING" ] || echo "$*" >>too-few
done
case "$*" in
  'compose version --short') echo "\${COMPOSE:-2.40.3}" ;;
  'compose config --images')
    [ -z "$HOLD" ] || { : >held; until [ -e released ]; do sleep 0.02; done; }
    printf '%s\\n' postgres:18-trixie "localhost/contacts/cli:$version" ;;
  'compose config') echo "version $version" ;;
  'compose config '*) wanted "$3"; printf 'services:\\n  %s:\\n    scale: %s\\n' "$3" "$wanted" ;;
  'image inspect '*) [[ $3 != *:9.9.9 ]] || exit 1 ;;
  'compose up --detach --no-build migrate') ;;
  'compose ps --all --quiet migrate') echo migration ;;
  'wait migration') echo "\${MIGRATION:-0}" ;;
  'compose up --detach --no-build --no-recreate --wait --wait-timeout 120 --scale '*) create "\${11}" "\${10#*=}" ;;
  'compose up --detach --no-build --wait --wait-timeout 120')
    for each in company-contacts personal-contacts; do
      look $each; wanted $each
      for id in "\${ids[@]:wanted}"; do rm "containers/$id"; done
      create $each "$wanted"
    done ;;
  'compose rm --force '*) ;;
  'compose ps --no-trunc --format {{.Health}} {{.ID}} '*)
    look "$6"
    for id in "\${ids[@]}"; do read -r _ _ health <"containers/$id"; echo "$health $id"; done ;;
  'compose ps --all --quiet '*) for each in "\${@:5}"; do look "$each"; [ \${#ids[@]} = 0 ] || printf '%s\\n' "\${ids[@]}"; done ;;
  'compose ps --quiet prometheus') ;;
  'stop '* | 'logs '*) ;;
  'rm '*) rm "containers/$2" ;;
  *) echo "unknown: $*" >&2; exit 64 ;;
esac
`;

interface Machine {
	cwd: string;
	/** `.env`, as bytes. */
	text: () => string;
	/** Every container as `service version health`, sorted. */
	containers: () => string[];
	start: (version: string[], variables?: Record<string, string>, shell?: string[]) => ReturnType<typeof spawn>;
	upgrade: (
		version: string | string[],
		variables?: Record<string, string>,
		shell?: string[],
	) => { status: number | null; output: string };
}

/** A folder with the script, `.env` and replicas of this version. */
function machine(env: string | undefined, replicas = 1, version = '0.1.0'): Machine {
	const cwd = mkdtempSync(join(folder, 'machine-'));
	for (const name of ['operations', 'bin', 'containers']) mkdirSync(join(cwd, name));
	cpSync(join(root, 'operations/upgrade.sh'), join(cwd, 'operations/upgrade.sh'));
	writeFileSync(join(cwd, 'bin/docker'), stub, { mode: 0o755 });
	if (env !== undefined) writeFileSync(join(cwd, '.env'), env, { encoding: 'latin1', mode: 0o600 });
	for (const service of services)
		for (let number = 1; number <= replicas; number++)
			writeFileSync(join(cwd, 'containers', `${service}-${number}`), `${service} ${version} healthy\n`);
	const environment = (variables: Record<string, string>) => ({
		...{
			PATH: `${join(cwd, 'bin')}:${process.env.PATH}`,
			FOLDER: cwd,
			SERVING: String(replicas),
			UNHEALTHY: '',
			HOLD: '',
		},
		...variables,
	});
	return {
		cwd,
		text: () => readFileSync(join(cwd, '.env'), 'latin1'),
		containers: () =>
			readdirSync(join(cwd, 'containers'))
				.map((name) => readFileSync(join(cwd, 'containers', name), 'utf8').trim())
				.toSorted(),
		start: (args, variables = {}, [shell = 'sh', ...options] = []) =>
			spawn(shell, [...options, 'operations/upgrade.sh', ...args], { cwd, env: environment(variables) }),
		upgrade(args, variables = {}, [shell = 'sh', ...options] = []) {
			const words = [...options, 'operations/upgrade.sh', ...[args].flat()];
			const { status, stdout, stderr } = spawnSync(shell, words, {
				cwd,
				env: environment(variables),
				encoding: 'utf8',
			});
			return { status, output: stdout + stderr };
		},
	};
}

const running = (version: string, replicas = 1) =>
	services.flatMap((service) => Array.from({ length: replicas }, () => `${service} ${version} healthy`));
const tooFew = ({ cwd }: Machine) => existsSync(join(cwd, 'too-few'));

/** What `echo`, `sed` and a shell could change: backslashes, `\c`, `&`, a byte that is no UTF-8, and the end of a line. */
const hostile =
	'A=ab\\ncd\\1\nB=x\\cy & $HOME `id` \xe9\xff\n\n# CONTACTS_VERSION=1\r\nCONTACTS_VERSION=0.1.0\r\n  C="one\ntwo"\nD=\\';
const upgraded = hostile.replace('=0.1.0', '=0.2.0');

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

	test('killed at any of its lines, it leaves .env whole, and the next run finishes or undoes it', () => {
		// Bash runs these before each command, in functions and subshells too.
		const [note, kill] = [join(folder, 'note.sh'), join(folder, 'kill.sh')];
		writeFileSync(note, "set -T; trap 'echo $LINENO >>lines' DEBUG\n");
		writeFileSync(kill, `set -T; trap '[ $LINENO -ne "$KILL_AT" ] || kill -9 $$' DEBUG\n`);
		const whole = machine(hostile);
		expect(whole.upgrade('0.2.0', { BASH_ENV: note }, ['bash'])).toMatchObject({ status: 0 });
		const lines = new Set(readFileSync(join(whole.cwd, 'lines'), 'utf8').trim().split('\n'));
		expect(lines.size).toBeGreaterThan(50);

		const seen = new Set<string>();
		for (const line of lines) {
			const it = machine(hostile);
			expect(it.upgrade('0.2.0', { BASH_ENV: kill, KILL_AT: line }, ['bash']).status, line).toBe(null);
			expect([hostile, upgraded], line).toContain(it.text());
			const state = JSON.stringify([it.text(), it.containers(), existsSync(join(it.cwd, '.env.new'))]);
			if (seen.has(state)) continue;
			seen.add(state);
			const copy = machine(hostile);
			rmSync(join(copy.cwd, 'containers'), { recursive: true });
			cpSync(it.cwd, copy.cwd, { recursive: true });
			expect(it.upgrade('0.2.0'), line).toMatchObject({ status: 0 });
			expect([it.text(), it.containers(), tooFew(it)], line).toEqual([upgraded, running('0.2.0'), false]);
			expect(copy.upgrade('0.1.0'), line).toMatchObject({ status: 0 });
			expect([copy.text(), copy.containers(), tooFew(copy)], line).toEqual([hostile, running('0.1.0'), false]);
		}
		expect(seen.size).toBeGreaterThan(5);
	}, 600_000);
});
