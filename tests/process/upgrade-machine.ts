import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { root } from '../docs/pages.js';

// operations/upgrade.sh with a stub in place of Docker. tests/compose runs the script with the containers.

const services = ['company-contacts', 'personal-contacts'];
export const folder = sharedFolder();

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
  'stop '*) ;;
  'logs '*) echo "log of \${@: -1}" ;;
  'rm '*) rm "containers/$2" ;;
  *) echo "unknown: $*" >&2; exit 64 ;;
esac
`;

export interface Machine {
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
export function machine(env: string | undefined, replicas = 1, version = '0.1.0'): Machine {
	const cwd = mkdtempSync(join(folder, 'machine-'));
	for (const name of ['bin', 'containers']) mkdirSync(join(cwd, name));
	for (const path of ['operations', 'gateway', 'packages/migrations/owner.sql'])
		cpSync(join(root, path), join(cwd, path), { recursive: true });
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

export const running = (version: string, replicas = 1) =>
	services.flatMap((service) => Array.from({ length: replicas }, () => `${service} ${version} healthy`));
export const tooFew = ({ cwd }: Machine) => existsSync(join(cwd, 'too-few'));

/** What `echo`, `sed` and a shell could change: backslashes, `\c`, `&`, a byte that is no UTF-8, and the end of a line. */
export const hostile =
	'A=ab\\ncd\\1\nB=x\\cy & $HOME `id` \xe9\xff\n\n# CONTACTS_VERSION=1\r\nCONTACTS_VERSION=0.1.0\r\n  C="one\ntwo"\nD=\\';
export const upgraded = hostile.replace('=0.1.0', '=0.2.0');
