import type { Sql } from '@contacts/common/database/client.js';
import { freePort } from '@contacts/local-postgres/ports.js';
import type { RoleUser } from '@contacts/migrations/roles.js';
import { addProject } from '@contacts/testing/app.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { gatewayConfig, withoutRate } from '@contacts/testing/gateway.js';
import { type HttpProxy, startHttpProxy } from '@contacts/testing/http-proxy.js';
import { type RunningNginx, startNginx } from '@contacts/testing/nginx.js';
import type { Random } from '@contacts/testing/random.js';
import { type ProgramName, type ServiceProcess, spawnService } from '@contacts/testing/services.js';
import type { TcpProxy } from '@contacts/testing/tcp-proxy.js';
import { type DatabaseOfKind, type Kind, startDatabase } from './database.js';
import { type RestartableRedis, startRestartableRedis } from './redis.js';

/** Addresses: all that a judge knows. */
export interface Place {
	/** A URL for each replica of personal-contacts. */
	personal: readonly string[];
	/** A URL for each replica of company-contacts, behind the gateway. */
	company: readonly string[];
	gateway: string;
	/**
	 * Whether the network can be away for seconds. Then clients reset the connection of a request that they give up, which the typed
	 * client can't: of a closed one, the system delivers the request later (docs/bot.md).
	 */
	losesNetwork: boolean;
	crm: StandIn;
	/** Runs this as the owner, on a separate connection, and again while the database is away: it must bear that. */
	asOwner<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
}

/** A process, and a hand on its connections. */
export interface Replica {
	readonly name: ProgramName;
	readonly process: ServiceProcess;
	/** For each host of its URL. */
	toDatabase: readonly TcpProxy[];
	/** The synchroniser has no clients. */
	toClients: HttpProxy;
	/** How often its processes have logged a message that begins with this. */
	logged(message: string): number;
	/** Ends the process with this signal, and starts it again. */
	restart(signal: NodeJS.Signals): Promise<void>;
}

/** Both services with two replicas, the synchroniser, and everything that they depend on. */
export interface System extends Place {
	replicas: { personal: readonly [Replica, Replica]; company: readonly [Replica, Replica]; sync: Replica };
	database: DatabaseOfKind;
	redis: RestartableRedis;
	/** How often a replica of company-contacts has begun to limit by itself, because Redis did not respond. */
	readonly ownLimits: number;
	nginx: RunningNginx;
	/** Stops all processes gracefully. @returns every process that was started, with its end and what it wrote */
	stop(): Promise<EndedProcess[]>;
}

export interface EndedProcess {
	name: ProgramName;
	/** Its exit code, or the signal that ended it. */
	code: number | string;
	/** The signal by which a disturbance has ended it. */
	killedBy: NodeJS.Signals | undefined;
	stdout: string;
	stderr: string;
}

/** A project for each judge that is limited. */
const projects = ['bot', 'partner', 'fresh', 'copy', 'mirror', 'greedy'] as const;

export async function startSystem(kind: Kind, random: Random): Promise<System> {
	const crm = await startStandIn({ plan: 'enterprise' });
	for (let n = 0; n < 100; n++) crm.add({ lastName: `Contact ${n}`, companyIds: [1 + (n % 7)] });
	const database = await startDatabase(kind);
	await database.asOwner(async (sql) => {
		for (const project of projects) await addProject(sql, project, `${project}-key`);
	});
	const redis = await startRestartableRedis();
	const ended: EndedProcess[] = [];
	const running: { stop(): Promise<void> }[] = [];
	let isStopping = false;

	async function startReplica(
		name: ProgramName & RoleUser,
		settings: Record<string, string>,
		isSecond: boolean,
	): Promise<Replica> {
		const { url: databaseUrl, proxies } = await database.wayFor(name, isSecond);
		const env = { DATABASE_URL: databaseUrl, PORT: String(await freePort()), ...settings };
		let service = spawnService(name, env);
		let killedBy: NodeJS.Signals | undefined;
		let earlier = '';
		const record = async (one: ServiceProcess, signal: NodeJS.Signals | undefined) =>
			void ended.push({ name, code: await one.exit, killedBy: signal, stdout: one.stdout(), stderr: one.stderr() });
		/** What runs a synchroniser starts it again when it has lost its session. */
		async function keepRunning(): Promise<void> {
			for (;;) {
				const one = service;
				await one.exit;
				await record(one, killedBy);
				earlier += one.stdout();
				killedBy = undefined;
				if (isStopping) return;
				service = spawnService(name, env);
			}
		}
		const url = await service.listening();
		const kept = keepRunning();
		running.push({
			async stop() {
				service.kill('SIGTERM');
				await kept;
			},
		});
		const toClients = await startHttpProxy(url);
		return {
			name,
			get process() {
				return service;
			},
			toDatabase: proxies,
			toClients,
			logged: (message) => (earlier + service.stdout()).split(`"msg":"${message}`).length - 1,
			async restart(signal) {
				const old = service;
				killedBy = signal;
				await old.stop(signal);
				while (service === old) await new Promise(setImmediate);
				await service.listening();
			},
		};
	}

	const pairOf = async (name: ProgramName & RoleUser, settings: Record<string, string> = {}) =>
		[await startReplica(name, settings, false), await startReplica(name, settings, true)] as const;
	const personal = await pairOf('personal-contacts');
	const company = await pairOf('company-contacts', { REDIS_URL: redis.url });
	const crmSettings = {
		BITRIX24_WEBHOOK_URL: crm.webhookUrl,
		BITRIX24_PLAN: 'enterprise',
		BITRIX24_INTERVAL_SECONDS: '5',
		BITRIX24_APPLICATION_TOKEN: 'x'.repeat(32),
	};
	const sync = await startReplica('crm-sync', crmSettings, random.integer(0, 1) === 1);
	await sync.process.waitForLine(/run done/);
	const nginx = await startNginx(
		gatewayConfig(
			company.map(({ toClients }) => new URL(toClients.url).host),
			withoutRate,
		),
	);
	const all = [...personal, ...company, sync];

	return {
		personal: personal.map(({ toClients }) => toClients.url),
		company: company.map(({ toClients }) => toClients.url),
		gateway: nginx.url,
		losesNetwork: false,
		crm,
		asOwner: database.asOwner,
		replicas: { personal, company, sync },
		database,
		redis,
		get ownLimits() {
			return company.reduce((sum, replica) => sum + replica.logged('Redis does not respond'), 0);
		},
		nginx,
		async stop() {
			isStopping = true;
			await nginx.stop();
			await Promise.all(all.map(({ toClients }) => toClients.close()));
			await Promise.all(running.map((replica) => replica.stop()));
			for (const { toDatabase } of all) for (const proxy of toDatabase) proxy.close();
			await redis.stop();
			await crm.close();
			await database.remove();
			return ended;
		},
	};
}
