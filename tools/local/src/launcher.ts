import { once } from 'node:events';
import { createServer } from 'node:net';
import { migrate } from '@contacts/common/database/migrate.js';
import { holdFolder } from '@contacts/local-postgres/data-folder.js';
import { type ChildService, StartError, startService } from './child-service.js';
import { type Crm, startCrm } from './crm.js';
import { type ServiceName, startLocalDatabase } from './local-database.js';
import type { Settings } from './settings.js';

export interface Running {
	services: ChildService[];
	/** Whether the demo project's key is valid. */
	demo: boolean;
	/** The stand-in of the CRM and its synchroniser, if requested. */
	crm: Crm | undefined;
	/** Resolves with the first service or database that ends by itself. */
	broken: Promise<string>;
	/** Stops everything, the database last. */
	stop(): Promise<void>;
}

/** Starts everything, the database first. Stops everything again when a later step fails. */
export async function launch(settings: Settings): Promise<Running> {
	const undo: (() => Promise<void>)[] = [];
	const stop = async () => {
		for (const step of undo.splice(0).reverse()) await step();
	};
	try {
		// Locks the folder first, so that a second launcher reports that, and not a port in use.
		const { databaseUrl: given } = settings;
		const folder = given === undefined ? await holdFolder(settings.dataFolder) : undefined;
		undo.push(async () => folder?.release());
		await checkPort(settings.companyPort, 'COMPANY_CONTACTS_PORT');
		await checkPort(settings.personalPort, 'PERSONAL_CONTACTS_PORT');

		let urlFor = (_: ServiceName) => given ?? '';
		let demo = false;
		const endings: Promise<string>[] = [];
		if (folder !== undefined) {
			const local = await startLocalDatabase(settings.dataFolder, folder);
			undo.push(() => local.server.stop());
			endings.push(local.server.ended.then(() => 'the database'));
			({ urlFor, demo } = local);
		} else if (given !== undefined) {
			await migrate(given);
		}

		const start = async (name: 'company-contacts' | 'personal-contacts', port: number) => {
			const service = await startService(name, port, { ...process.env, DATABASE_URL: urlFor(name) });
			undo.push(service.stop);
			endings.push(service.ended.then(() => name));
			return service;
		};
		const services = await allOrNothing([
			start('company-contacts', settings.companyPort),
			start('personal-contacts', settings.personalPort),
		]);
		const crm = settings.withCrm ? await startCrm(urlFor('company-contacts-sync'), undo) : undefined;
		return { services, demo, crm, broken: Promise.race(endings), stop };
	} catch (error) {
		await stop();
		throw error;
	}
}

/** Waits for all even when one fails, so that the caller can stop each. */
async function allOrNothing<T>(promises: Promise<T>[]): Promise<T[]> {
	const results = await Promise.allSettled(promises);
	for (const result of results) if (result.status === 'rejected') throw result.reason;
	return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
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
