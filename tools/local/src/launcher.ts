import { once } from 'node:events';
import { createServer } from 'node:net';
import type { ServiceName } from '@contacts/common/auth/key-ring.sql.js';
import { escapeControls } from '@contacts/common/observability/escape-controls.js';
import { ConfigError } from '@contacts/common/process/config.js';
import { migrate } from '@contacts/migrations/migrate.js';
import { spawnService } from './child-service.js';
import { type StopSteps, startLocalDatabase } from './local-database.js';
import type { Settings } from './settings.js';

/**
 * Starts everything, the database first.
 *
 * @returns a promise of the first part that ends by itself
 */
export async function launch(settings: Settings, stopSteps: StopSteps): Promise<{ broken: Promise<string> }> {
	const { databaseUrl, dataFolder, companyPort, personalPort } = settings;
	await checkPort(companyPort, 'COMPANY_CONTACTS_PORT');
	await checkPort(personalPort, 'PERSONAL_CONTACTS_PORT');

	const endings: Promise<string>[] = [];
	let urlFor = (_: ServiceName) => databaseUrl ?? '';
	if (databaseUrl === undefined) {
		const database = await startLocalDatabase(dataFolder, stopSteps);
		endings.push(database.ended.then(() => 'the database'));
		urlFor = database.urlFor;
	} else {
		await migrate(databaseUrl, undefined, {
			onWaiting: (message) => process.stderr.write(`${escapeControls(message)}\n`),
		});
	}

	const start = (name: ServiceName, port: number) => {
		const service = spawnService(name, port, urlFor(name));
		stopSteps.push(service.stop);
		endings.push(service.ended.then(() => name));
		return service.ready();
	};
	await Promise.all([start('company-contacts', companyPort), start('personal-contacts', personalPort)]);
	return { broken: Promise.race(endings) };
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
