import { once } from 'node:events';
import { createServer } from 'node:net';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { escapeControls } from '@contacts/common/observability/escape-controls.js';
import { ConfigError } from '@contacts/common/process/config.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { spawnService } from './child-service.js';
import { type StopSteps, startLocalDatabase } from './local-database.js';
import type { Settings } from './settings.js';

export interface Services {
	/** The first that ends without `stop`. */
	ended: Promise<ServiceName>;
	/** @throws ConfigError when one of them does not start */
	ready(): Promise<void>;
	stop(): Promise<void>;
}

interface Launched {
	services: Services;
	/** Starts the services another time, after they were stopped. */
	startServices: () => Services;
	/** Resolves when the embedded database has ended. */
	databaseEnded: Promise<void>;
}

/** Starts everything, the database first. */
export async function launch(settings: Settings, stopSteps: StopSteps): Promise<Launched> {
	const { databaseUrl, dataFolder, companyPort, personalPort } = settings;
	await checkPort(companyPort, 'COMPANY_CONTACTS_PORT');
	await checkPort(personalPort, 'PERSONAL_CONTACTS_PORT');

	let databaseEnded = new Promise<void>(() => undefined);
	let urlFor = (_: ServiceName) => databaseUrl ?? '';
	if (databaseUrl === undefined) {
		({ ended: databaseEnded, urlFor } = await startLocalDatabase(dataFolder, stopSteps));
	} else {
		await migrate(databaseUrl, undefined, {
			onWaiting: (message) => process.stderr.write(`${escapeControls(message)}\n`),
		});
	}

	const startServices = (): Services => {
		const ports = { 'company-contacts': companyPort, 'personal-contacts': personalPort };
		const children = (Object.keys(ports) as (keyof typeof ports)[]).map((name) => {
			const service = spawnService(name, ports[name], urlFor(name));
			stopSteps.push(service.stop);
			return { name, ...service };
		});
		return {
			ended: Promise.race(children.map(({ name, ended }) => ended.then(() => name))),
			ready: async () => void (await Promise.all(children.map((child) => child.ready()))),
			stop: async () => void (await Promise.all(children.map((child) => child.stop()))),
		};
	};
	const services = startServices();
	await services.ready();
	return { services, startServices, databaseEnded };
}

/** @throws ConfigError when another process listens on the port */
async function checkPort(port: number, variable: string): Promise<void> {
	const server = createServer().listen(port, '127.0.0.1');
	try {
		await once(server, 'listening');
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		const line =
			code === 'EADDRINUSE'
				? `Port ${port} is in use, perhaps by another start: stop that one, or set ${variable} to a free port.`
				: `Port ${port} can't be used (${code}): set ${variable} to another one.`;
		throw new ConfigError([line]);
	}
	server.close();
	await once(server, 'close');
}
