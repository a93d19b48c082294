import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { Agent, get } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { migrate } from '@contacts/migrations/migrate.js';
import { setUpRoles, urlAs } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { rolePassword } from '@contacts/testing/database.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import postgres from 'postgres';
import { fillIn, type Machine, type Network } from './network.js';
import { type Supervised, supervise } from './supervisor.js';

export interface DatabaseCluster {
	machines: readonly Machine[];
	/** It may read Patroni. */
	monitoring: Machine;
	/** etcd and Patroni of each machine. */
	processes: readonly Supervised[];
	/** `host:port,host:port,…` */
	hosts: string;
	/** The name of the machine whose PostgreSQL is the primary, according to its Patroni. */
	primary(): Promise<string | undefined>;
	/** Whether there is a primary that every other machine follows synchronously. */
	isWhole(): Promise<boolean>;
	superuserUrl(): Promise<string>;
	/** The folder with a folder for each address: `ca.crt`, `machine.crt` and `machine.key`. */
	certificates: string;
}

/** A member of the cluster, as Patroni describes it. */
interface Member {
	role: string;
	state: string;
	timeline?: number;
	lag?: number;
}

const password = 'superuser';
/** The programs of the newest PostgreSQL from Debian on this machine. */
const programs = () => `/usr/lib/postgresql/${Math.max(...readdirSync('/usr/lib/postgresql').map(Number))}/bin`;

/** Signs a certificate for each address into `folder/ADDRESS`, as operations/ha says. With `--reader` first, for one that reads. */
export function makeCertificates(folder: string, ...addresses: string[]): void {
	const script = fileURLToPath(new URL('../../operations/ha/certificates.sh', import.meta.url));
	execFileSync(script, [folder, ...addresses], { stdio: 'pipe' });
}

/**
 * Three machines with etcd, Patroni and PostgreSQL as operations/ha says, and the migrated database `contacts`. Only `services`
 * may reach PostgreSQL. This process watches the cluster, so it may reach what the database machines may, with its certificate.
 */
export async function startDatabaseCluster(
	network: Network,
	folder: string,
	services: readonly Machine[],
): Promise<DatabaseCluster> {
	await checkThisMachine();
	const machines = [1, 2, 3].map((n) => network.machine(`db${n}`, 20 + n));
	const monitoring = network.machine('monitoring', 41);
	const list = (each: (machine: Machine) => string) => machines.map(each).join();
	const rules = join(folder, 'database.nft');
	fillIn(
		'database.nft',
		{
			DATABASES: [...machines, network].map(({ address }) => address).join(),
			SERVICES: services.map(({ address }) => address).join(),
			MONITORING: monitoring.address,
		},
		rules,
	);
	const certificates = join(folder, 'certificates');
	makeCertificates(certificates, ...[...machines, network].map(({ address }) => address));
	makeCertificates(certificates, '--reader', monitoring.address);
	const processes = machines.flatMap((machine) => {
		machine.run('nft', '-f', rules);
		const data = join(folder, machine.name);
		mkdirSync(data, { mode: 0o700 });
		cpSync(join(certificates, machine.address), join(data, 'tls'), { recursive: true });
		execFileSync('chown', ['-R', 'postgres:postgres', data]);
		const values = {
			NODE: machine.name,
			ADDRESS: machine.address,
			ETCD_HOSTS: list(({ address }) => `${address}:2379`),
			ETCD_CLUSTER: list(({ name, address }) => `${name}=https://${address}:2380`),
			NETWORK: network.addresses,
			DATA: data,
			POSTGRES_PROGRAMS: programs(),
			POSTGRES_PASSWORD: password,
			REPLICATION_PASSWORD: 'replication',
		};
		const config = join(folder, `${machine.name}.yml`);
		fillIn('patroni.yml', values, config);
		const etcd = Object.fromEntries(
			fillIn('etcd.env', values)
				.trim()
				.split('\n')
				.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
		);
		return [
			supervise(machine, {
				name: `etcd on ${machine.name}`,
				command: ['etcd'],
				env: etcd,
				user: 'postgres',
				log: join(folder, `${machine.name}-etcd.log`),
			}),
			supervise(machine, {
				name: `patroni on ${machine.name}`,
				command: ['patroni', config],
				user: 'postgres',
				log: join(folder, `${machine.name}-patroni.log`),
			}),
		];
	});

	const [ca, cert, key] = ['ca.crt', 'machine.crt', 'machine.key'].map((name) =>
		readFileSync(join(certificates, network.address, name)),
	);
	const agent = new Agent({ ca, cert, key });
	const ask = ({ address }: Machine, path: string) =>
		new Promise<{ status: number | undefined; body: string } | undefined>((resolve) => {
			const nothing = () => resolve(undefined);
			const options = { agent, signal: AbortSignal.timeout(1000) };
			get(`https://${address}:8008${path}`, options, (response) => {
				text(response).then((body) => resolve({ status: response.statusCode, body }), nothing);
			}).on('error', nothing);
		});
	const primary = async () => {
		const responses = await Promise.all(machines.map((machine) => ask(machine, '/primary')));
		return machines[responses.findIndex((response) => response?.status === 200)]?.name;
	};
	const isWhole = async () => {
		const name = await primary();
		const machine = machines.find((each) => each.name === name);
		if (machine === undefined) return false;
		const response = await ask(machine, '/cluster');
		const { members } = JSON.parse(response?.body || '{"members":[]}') as { members: Member[] };
		const [leader] = members.filter(({ role }) => role === 'leader');
		const follows = ({ role, state, lag, timeline }: Member) =>
			role === 'sync_standby' &&
			/^(running|streaming)$/.test(state) &&
			(lag ?? Number.NaN) < 1_000_000 &&
			timeline === leader?.timeline;
		return members.filter(follows).length === 2;
	};
	const superuserUrl = async () => {
		const name = await waitUntil(primary, { timeoutMs: 60_000, intervalMs: 200 });
		const { address } = machines.find((each) => each.name === name) as Machine;
		return `postgres://postgres:${password}@${address}:5432/contacts`;
	};
	const outputs = () => processes.map(({ output }) => output()).join('\n');
	await waitUntil(isWhole, { timeoutMs: 90_000, intervalMs: 300, message: outputs });

	const superuser = await superuserUrl();
	const maintenance = postgres(superuser.replace('/contacts', '/postgres'), { max: 1 });
	await maintenance`create database contacts`;
	await maintenance.end();
	const users = ['owner', 'personal-contacts', 'company-contacts', 'crm-sync'] as const;
	await setUpRoles(superuser, Object.fromEntries(users.map((user) => [user, rolePassword])));
	await migrate(urlAs(superuser, 'owner', rolePassword));
	const sql = postgres(superuser, { max: 1, fetch_types: false });
	for (const project of ['bot', 'partner', 'greedy', 'fresh', 'copy', 'mirror'])
		await addProject(sql, project, `${project}-key`);
	await sql.end();
	return {
		machines,
		monitoring,
		processes,
		hosts: list(({ address }) => `${address}:5432`),
		primary,
		isWhole,
		superuserUrl,
		certificates,
	};
}

/** @throws Error when this machine can't run what operations/ha describes */
async function checkThisMachine(): Promise<void> {
	const version = execFileSync('patroni', ['--version'], { encoding: 'utf8' }).trim();
	// https://github.com/patroni/patroni/pull/2689
	const why = 'with etcd, one before 3.0.3 may take the lock back from the primary that has replaced it';
	if (Number(/\d+/.exec(version)?.[0]) < 4) throw new Error(`operations/ha needs Patroni 4, not ${version}: ${why}`);
	// PostgreSQL that Patroni has started is an orphan, and Patroni waits until it is gone.
	const orphan = execFileSync('sh', ['-c', 'sleep 0.1 >/dev/null & echo $!'], { encoding: 'utf8' }).trim();
	const message = () => 'process 1 reaps no orphans: start the container with --init';
	await waitUntil(() => !existsSync(`/proc/${orphan}`), { timeoutMs: 5000, intervalMs: 100, message });
}

/** The postmaster of a machine and all its children: whatever runs the program `postgres` there. */
export const postgresOf = (machine: Machine) =>
	machine.pids().filter((pid) => {
		try {
			return /^postgres/.test(readFileSync(`/proc/${pid}/comm`, 'utf8'));
		} catch {
			return false;
		}
	});
