import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sharedFolder } from '@contacts/testing/temporary-folder.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DatabaseCluster, makeCertificates, startDatabaseCluster } from './database-cluster.js';
import { createNetwork, type Machine } from './network.js';

const folder = sharedFolder(0o755);
const network = createNetwork();
const removeAll = () => network.remove();
process.once('exit', removeAll);
const service = network.machine('app1', 11);
const other = network.machine('redis', 31);
let database: DatabaseCluster;

beforeAll(async () => {
	database = await startDatabaseCluster(network, folder, [service]);
});

afterAll(async () => {
	try {
		await Promise.all(database.processes.map((each) => each.stop()));
	} finally {
		network.remove();
		process.off('exit', removeAll);
	}
});

/** Which ports of `target` accept a connection from `machine`. */
function openPorts(machine: Machine, target: Machine): number[] {
	const connect = (port: number) => `(exec 3<>/dev/tcp/${target.address}/${port}) 2>/dev/null && echo ${port};`;
	const ports = machine.run('timeout', '10', 'bash', '-c', `${[2379, 2380, 5432, 8008].map(connect).join('')} true`);
	return ports.split('\n').filter(Boolean).map(Number);
}

/** The arguments with which curl sends each request that Patroni or etcd must refuse from a stranger. */
const requests: [name: string, port: number, path: string, ...args: string[]][] = [
	['change Patroni', 8008, '/config', '--request', 'PATCH', '--data', '{"maximum_lag_on_failover":1048577}'],
	['restart PostgreSQL', 8008, '/restart', '--data', '{"schedule":"2099-01-01T00:00:00Z"}'],
	['read Patroni', 8008, '/config'],
	['put on etcd', 2379, '/v3/kv/put', '--data', '{"key":"a2V5","value":"dmFsdWU="}'],
	['read etcd', 2379, '/v3/kv/range', '--data', '{"key":"a2V5"}'],
	['read the members of etcd', 2380, '/members'],
];

/** The names of the requests from `machine` to `target` that succeed with these arguments of curl. */
const accepted = (machine: Machine, target: Machine, protocol: string, ...common: string[]) =>
	requests
		.filter(([, port, path, ...args]) => {
			const curl = 'curl --silent --http1.1 --max-time 5 --output /dev/null --write-out "%{http_code}" "$@" || true';
			const url = `${protocol}://${target.address}:${port}${path}`;
			return machine.run('sh', '-c', curl, 'sh', ...common, ...args, url).startsWith('2');
		})
		.map(([name]) => name);

/** The arguments with which curl presents the certificate in this folder. */
const presenting = (certificate: string) => [
	...['--cert', join(certificate, 'machine.crt')],
	...['--key', join(certificate, 'machine.key')],
];

test('a machine with services can reach PostgreSQL on the database machines, and neither Patroni nor etcd', () => {
	for (const target of database.machines) {
		expect(openPorts(service, target)).toEqual([5432]);
		expect(openPorts(other, target)).toEqual([]);
		expect(openPorts(database.monitoring, target)).toEqual([8008]);
		for (const machine of database.machines) expect(openPorts(machine, target)).toEqual([2379, 2380, 5432, 8008]);
	}
});

test('the monitoring machine reads the metrics of the alert on standbys, and changes nothing', async () => {
	const { monitoring, certificates, machines } = database;
	const certificate = join(certificates, monitoring.address);
	const own = ['--cacert', join(certificate, 'ca.crt'), ...presenting(certificate)];
	const alerts = readFileSync(new URL('../../operations/prometheus/alerts.yml', import.meta.url), 'utf8');
	const names = new Set(alerts.match(/\bpatroni_\w+/g));
	const read = () =>
		machines.map((target) => {
			const metrics = monitoring.run('curl', '--silent', ...own, `https://${target.address}:8008/metrics`);
			return [...names].map((name) => new RegExp(`^${name}\\{.*\\} ([01])$`, 'm').exec(metrics)?.[1]).join();
		});
	expect([...names]).toEqual(['patroni_sync_standby', 'patroni_primary']);
	// One primary, and two standbys that it waits for.
	await expect.poll(() => read().toSorted(), { timeout: 60_000 }).toEqual(['0,1', '1,0', '1,0']);
	for (const target of machines) expect(accepted(monitoring, target, 'https', ...own)).toEqual(['read Patroni']);
});

test('without the rules, Patroni and etcd refuse every client that has no certificate of the cluster', () => {
	const ofAnother = join(folder, 'certificates-of-another');
	makeCertificates(ofAnother, service.address);
	for (const target of database.machines) {
		target.run('nft', 'delete', 'table', 'inet', 'contacts');
		expect(openPorts(service, target)).toEqual([2379, 2380, 5432, 8008]);
		expect(accepted(service, target, 'http')).toEqual([]);
		expect(accepted(service, target, 'https', '--insecure')).toEqual([]);
		const presented = presenting(join(ofAnother, service.address));
		expect(accepted(service, target, 'https', '--insecure', ...presented)).toEqual([]);
		const reading = presenting(join(database.certificates, database.monitoring.address));
		expect(accepted(database.monitoring, target, 'https', '--insecure', ...reading)).toEqual(['read Patroni']);
	}
	const [target, member] = database.machines as [Machine, Machine];
	const certificate = join(database.certificates, member.address);
	const ofCluster = ['--cacert', join(certificate, 'ca.crt'), ...presenting(certificate)];
	const read = (url: string, ...args: string[]) =>
		member.run('curl', '--silent', ...ofCluster, ...args, `https://${target.address}:${url}`);
	expect(read('8008/config')).toContain('"maximum_lag_on_failover": 1048576');
	expect(read('2379/v3/kv/range', '--data', '{"key":"a2V5"}')).not.toContain('kvs');
	expect(accepted(member, target, 'https', ...ofCluster)).toEqual(requests.map(([name]) => name));
});
