import { execFileSync, spawnSync } from 'node:child_process';
import {
	existsSync,
	mkdirSync,
	mkdtempSync,
	readdirSync,
	readFileSync,
	rmdirSync,
	rmSync,
	writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { childrenOf } from '@contacts/testing/proc.js';
import { environmentOf, type RunningProcess, startProcess } from '@contacts/testing/process.js';
import { waitUntil } from '@contacts/testing/wait-until.js';

const repository = fileURLToPath(new URL('../..', import.meta.url));

/**
 * A machine that runs systemd as PID 1: a container of systemd-nspawn with this machine's programs, the files of a release in
 * /srv/release, and this repository in /srv/crm, for the stand-in of the CRM alone. What it writes is kept in memory, until
 * `remove`.
 */
export class Machine {
	readonly #folder = mkdtempSync('/var/tmp/contacts-machine-');
	readonly #release: string;
	#container: RunningProcess | undefined;

	/** @param release the folder with the files of the release */
	constructor(release: string) {
		this.#release = release;
		execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', this.#folder]);
		const [root, upper, work] = ['root', 'upper', 'work'].map((name) => join(this.#folder, name)) as [
			string,
			string,
			string,
		];
		for (const folder of [root, upper, work]) mkdirSync(folder);
		execFileSync('mount', ['-t', 'overlay', 'overlay', '-o', `lowerdir=/,upperdir=${upper},workdir=${work}`, root]);
		// What this machine itself runs and stores is not part of the other one.
		const emptied = [
			'etc/systemd/system',
			'etc/contacts',
			'etc/postgresql',
			'etc/nginx/tls',
			'etc/nginx/upstreams',
			'opt/contacts',
			'var/log/journal',
		];
		for (const folder of [...emptied, 'var/lib/postgresql', 'var/lib/prometheus', 'var/lib/contacts-backup']) {
			rmSync(join(root, folder), { recursive: true, force: true });
		}
		for (const folder of ['etc/systemd/system', 'etc/postgresql', 'srv/release', 'srv/crm', 'var/lib/postgresql'])
			mkdirSync(join(root, folder), { recursive: true });
		writeFileSync(join(root, 'etc/fstab'), '');
		writeFileSync(join(root, 'etc/machine-id'), '0123456789abcdef0123456789abcdef\n');
		execFileSync('ln', [
			'-s',
			'/lib/systemd/system/multi-user.target',
			join(root, 'etc/systemd/system/default.target'),
		]);
	}

	/** Boots until systemd accepts commands. */
	async boot(): Promise<void> {
		const isBootedWithSystemd = existsSync('/run/systemd/system');
		this.#container = startProcess('systemd-nspawn', [
			...['--quiet', '--boot', '--console=read-only', '--register=no', ...(isBootedWithSystemd ? [] : ['--keep-unit'])],
			...['--private-network', '--link-journal=no', '--resolv-conf=off', '--timezone=off', '--machine=contacts-test'],
			...[`--directory=${join(this.#folder, 'root')}`, `--bind-ro=${repository}:/srv/crm`],
			`--bind-ro=${this.#release}:/srv/release`,
			`--bind-ro=${process.execPath}:/usr/bin/node`,
		]);
		await waitUntil(() => this.#init !== undefined && this.#try('systemctl show-environment').status === 0, {
			timeoutMs: 60_000,
			intervalMs: 200,
			message: () => `The machine did not boot:\n${this.#container?.output()}`,
		});
	}

	/** Shuts down, as `poweroff` does. */
	async shutDown(): Promise<void> {
		// SIGRTMIN+3, which Node.js has no name for.
		execFileSync('kill', ['-37', String(this.#init)]);
		await this.#container?.exit;
	}

	/**
	 * Runs commands of a shell, as root.
	 *
	 * @returns what they print
	 */
	run(commands: string): string {
		const { status, stdout, stderr } = this.#try(commands);
		if (status !== 0) throw new Error(`${commands}\nended with ${status}:\n${stdout}${stderr}`);
		return stdout.trim();
	}

	/** The value of a property of a unit. */
	show(unit: string, property: string): string {
		return this.run(`systemctl show --property=${property} --value ${unit}`);
	}

	async remove(): Promise<void> {
		// The machine would outlive systemd-nspawn, if only that was killed.
		const init = this.#init;
		if (init !== undefined) process.kill(init, 'SIGKILL');
		await this.#container?.exit;
		execFileSync('umount', [join(this.#folder, 'root')]);
		execFileSync('umount', [this.#folder]);
		rmdirSync(this.#folder);
	}

	/** The process that is PID 1 in the machine, by its ID outside. */
	get #init(): number | undefined {
		const children = this.#container === undefined ? [] : childrenOf(this.#container.pid);
		return children.find((pid) => /^NSpid:.*\t1$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')));
	}

	#try(commands: string) {
		const inside = ['--target', String(this.#init), '--mount', '--uts', '--ipc', '--net', '--pid', '--'];
		const env = { ...environmentOf(), PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', LC_ALL: 'C.UTF-8' };
		return spawnSync('nsenter', [...inside, 'sh', '-ec', commands], { env, encoding: 'utf8', timeout: 120_000 });
	}
}

/** The version of Debian's PostgreSQL. */
export const postgresVersion = () => readdirSync('/usr/lib/postgresql').sort().at(-1);
