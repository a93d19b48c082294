import { connect as connectTo, createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type RoleUser, urlAs } from '@contacts/migrations/roles.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { rolePassword } from '@contacts/testing/database.js';
import { gatewayConfig, withoutRate } from '@contacts/testing/gateway.js';
import { configureNginx } from '@contacts/testing/nginx.js';
import { waitUntil } from '@contacts/testing/wait-until.js';
import type { DatabaseCluster } from './database-cluster.js';
import { fillIn, type Machine, type Network } from './network.js';
import { type Supervised, supervise } from './supervisor.js';

export interface Applications {
	/** The two machines with services, and the one with Redis. */
	machines: readonly Machine[];
	processes: readonly Supervised[];
	crm: StandIn;
	/** The URLs of personal-contacts, and of the gateways. */
	personal: readonly string[];
	gateways: readonly string[];
	/** Whether both of each are ready. */
	areReady(): Promise<boolean>;
	close(): Promise<void>;
}

/** The token bucket of each project. */
export const limit = { perSecond: 5, burst: 50 };

const root = fileURLToPath(new URL('../..', import.meta.url));

/** On both machines every service, a synchroniser and a gateway, and one machine with Redis. The CRM is in this process. */
export async function startApplications(
	network: Network,
	folder: string,
	database: DatabaseCluster,
	services: readonly [Machine, Machine],
): Promise<Applications> {
	const crm = await startStandIn({ plan: 'enterprise' });
	for (let n = 0; n < 100; n++) crm.add({ lastName: `Contact ${n}` });
	const crmPort = Number(new URL(crm.webhookUrl).port);
	// A CRM without TLS must have a loopback address, so each machine forwards its own to this process.
	const here = createServer((socket) => {
		const onward = connectTo(crmPort, '127.0.0.1');
		for (const end of [socket, onward]) end.on('error', () => socket.destroy() && onward.destroy());
		socket.pipe(onward).pipe(socket);
	});
	await new Promise<void>((resolve) => here.listen(crmPort, network.address, resolve));
	const wayToCrm = `
		const { connect, createServer } = require('node:net');
		createServer((socket) => {
			const onward = connect(${crmPort}, '${network.address}');
			for (const end of [socket, onward]) end.on('error', () => { socket.destroy(); onward.destroy(); });
			socket.pipe(onward).pipe(socket);
		}).listen(${crmPort}, '127.0.0.1');`;

	const cache = network.machine('redis', 31);
	const redis = supervise(cache, {
		name: 'redis',
		log: join(folder, 'redis.log'),
		command: ['redis-server', '--bind', cache.address, '--protected-mode', 'no', '--save', ''],
	});
	const [first, second] = services;
	const upstream = fillIn('upstream.conf', { MACHINE_1: first.address, MACHINE_2: second.address });
	const url = (role: RoleUser) =>
		`${urlAs(`postgres://user@${first.address}/contacts`, role, rolePassword).replace(first.address, database.hosts)}?target_session_attrs=read-write`;
	const service = (machine: Machine, name: RoleUser, program: string, port: number, env: Record<string, string> = {}) =>
		supervise(machine, {
			name: `${name} on ${machine.name}`,
			log: join(folder, `${machine.name}-${name}.log`),
			command: [process.execPath, join(root, program)],
			env: { DATABASE_URL: url(name), HOST: '0.0.0.0', PORT: String(port), LOG_LEVEL: 'warn', ...env },
		});
	const processes = services.flatMap((machine) => [
		service(machine, 'personal-contacts', 'services/personal-contacts/dist/main.js', 3001),
		service(machine, 'company-contacts', 'services/company-contacts/dist/main.js', 3000, {
			REDIS_URL: `redis://${cache.address}:6379`,
			TRUST_PROXY: network.addresses,
			RATE_LIMIT_PER_SECOND: String(limit.perSecond),
			RATE_LIMIT_BURST: String(limit.burst),
		}),
		supervise(machine, {
			name: `way to the CRM of ${machine.name}`,
			log: join(folder, `${machine.name}-way.log`),
			command: [process.execPath, '-e', wayToCrm],
		}),
		service(machine, 'crm-sync', 'workers/crm-sync/dist/main.js', 3002, {
			BITRIX24_WEBHOOK_URL: crm.webhookUrl,
			BITRIX24_PLAN: 'enterprise',
			BITRIX24_INTERVAL_SECONDS: '5',
		}),
		gateway(machine, join(folder, `gateway-${machine.name}`), upstream),
	]);

	const isReady = async (address: string) => {
		const response = await fetch(address, { signal: AbortSignal.timeout(2000) }).catch(() => undefined);
		return response?.ok === true;
	};
	const areReady = async () => {
		const addresses = services.flatMap(({ address }) => [
			...[3000, 3001, 3002].map((port) => `http://${address}:${port}/health/ready`),
			`http://${address}:8080/openapi.json`,
		]);
		return (await Promise.all(addresses.map(isReady))).every(Boolean);
	};
	const outputs = () => processes.map(({ output }) => output()).join('\n');
	await waitUntil(areReady, { timeoutMs: 60_000, intervalMs: 300, message: outputs });
	return {
		machines: [...services, cache],
		processes: [...processes, redis],
		crm,
		personal: services.map(({ address }) => `http://${address}:3001`),
		gateways: services.map(({ address }) => `http://${address}:8080`),
		areReady,
		async close() {
			here.close();
			await crm.close();
		},
	};
}

function gateway(machine: Machine, folder: string, upstream: string): Supervised {
	const config = gatewayConfig({ group: upstream }, withoutRate)
		.replaceAll('127.0.0.1:PORT', `${machine.address}:8080`)
		.replaceAll('FOLDER', folder)
		.replaceAll('ACCESS_LOG', join(folder, 'access.log'));
	return supervise(machine, {
		name: `gateway on ${machine.name}`,
		log: `${folder}/output.log`,
		command: ['nginx', ...configureNginx(folder, config)],
	});
}
