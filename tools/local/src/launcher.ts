import { once } from 'node:events';
import { createServer } from 'node:net';
import { migrate } from '@contacts/common/database/migrate.js';
import { escapeControls } from '@contacts/common/observability/escape-controls.js';
import { spawnService } from './child-service.js';
import { type Crm, startCrm } from './crm.js';
import { openDataFolder } from './data-folder.js';
import { type ServiceName, startLocalDatabase } from './local-database.js';
import type { Settings } from './settings.js';
import { StartError } from './start-error.js';

/** What stops each part. Each part adds its own as soon as it exists, even while it is starting. */
export type StopSteps = (() => Promise<void>)[];

export interface Running {
	/** Whether the demo project's key is valid. */
	demo: boolean;
	/** The stand-in of the CRM and its synchroniser, if requested. */
	crm: Crm | undefined;
	/** Resolves with the first service or database that ends by itself. */
	broken: Promise<string>;
}

/** Starts everything, the database first. */
export async function launch(settings: Settings, stopSteps: StopSteps): Promise<Running> {
	const { databaseUrl, dataFolder, companyPort, personalPort } = settings;
	// First, so that a second launcher reports that, and not a port in use.
	if (databaseUrl === undefined) await openDataFolder(dataFolder);
	await checkPort(companyPort, 'COMPANY_CONTACTS_PORT');
	await checkPort(personalPort, 'PERSONAL_CONTACTS_PORT');

	const endings: Promise<string>[] = [];
	let urlFor = (_: ServiceName) => databaseUrl ?? '';
	let demo = false;
	if (databaseUrl === undefined) {
		const database = await startLocalDatabase(dataFolder, stopSteps);
		endings.push(database.ended.then(() => 'the database'));
		({ urlFor, demo } = database);
	} else {
		await migrate(databaseUrl, undefined, {
			onWaiting: (message) => process.stderr.write(`${escapeControls(message)}\n`),
		});
	}

	const start = (name: 'company-contacts' | 'personal-contacts', port: number) => {
		const service = spawnService(name, port, { DATABASE_URL: urlFor(name) });
		stopSteps.push(service.stop);
		endings.push(service.ended.then(() => name));
		return service.ready();
	};
	await Promise.all([start('company-contacts', companyPort), start('personal-contacts', personalPort)]);
	const crm = settings.withCrm ? await startCrm(urlFor('crm-sync'), stopSteps) : undefined;
	return { demo, crm, broken: Promise.race(endings) };
}

/** @throws StartError when another process listens on the port */
async function checkPort(port: number, variable: string): Promise<void> {
	const server = createServer().listen(port, '127.0.0.1');
	try {
		await once(server, 'listening');
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		throw new StartError(
			code === 'EADDRINUSE'
				? `Port ${port} is in use by another process: set ${variable} to a free one.`
				: `Port ${port} can't be used (${code}): set ${variable} to another one.`,
		);
	}
	server.close();
	await once(server, 'close');
}
