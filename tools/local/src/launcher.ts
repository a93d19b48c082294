import { once } from 'node:events';
import { createServer } from 'node:net';
import { migrate } from '@contacts/common/database/migrate.js';
import { escapeControls } from '@contacts/common/observability/escape-controls.js';
import { ConfigError } from '@contacts/common/process/config.js';
import { sampleContacts, sampleFieldNames, sampleFields } from '@contacts/testing/bitrix24/sample-contacts.js';
import { startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { freePort } from '@contacts/testing/ports.js';
import { type ServiceName, spawnService } from './child-service.js';
import { startLocalDatabase } from './local-database.js';
import type { Settings } from './settings.js';

/** What stops each part. Each part adds its own as soon as it exists, even while it is starting. */
export type StopSteps = (() => Promise<void>)[];

/** The stand-in of the CRM, and the synchroniser that mirrors it. */
export interface Crm {
	webhookUrl: string;
	synchroniserUrl: string;
}

export interface Running {
	/** Undefined without `--with-crm`. */
	crm: Crm | undefined;
	/** Resolves with the first part that ends by itself. */
	broken: Promise<string>;
}

/** Starts everything, the database first. */
export async function launch(settings: Settings, stopSteps: StopSteps): Promise<Running> {
	const { databaseUrl, dataFolder, companyPort, personalPort, withCrm } = settings;
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

	const start = (name: ServiceName, port: number, environment: NodeJS.ProcessEnv = {}) => {
		const service = spawnService(name, port, { ...environment, DATABASE_URL: urlFor(name) });
		stopSteps.push(service.stop);
		endings.push(service.ended.then(() => name));
		return service.ready();
	};
	await Promise.all([start('company-contacts', companyPort), start('personal-contacts', personalPort)]);
	let crm: Crm | undefined;
	if (withCrm) {
		const { webhookUrl, close } = await startStandIn({ fields: sampleFields, contacts: sampleContacts(200) });
		stopSteps.push(close);
		const port = await freePort();
		await start('crm-sync', port, {
			BITRIX24_WEBHOOK_URL: webhookUrl,
			BITRIX24_UF_TROUBLE: sampleFieldNames.troubleContact,
			BITRIX24_UF_REASON: sampleFieldNames.perplexityReason,
			BITRIX24_INTERVAL_SECONDS: '10',
		});
		crm = { webhookUrl, synchroniserUrl: `http://127.0.0.1:${port}` };
	}
	return { crm, broken: Promise.race(endings) };
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
