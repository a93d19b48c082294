import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { freePort } from '@contacts/local-postgres/server.js';
import { StartError, startService } from './child-service.js';

export interface Crm {
	webhookUrl: string;
	synchroniserUrl: string;
}

interface Announcement {
	webhookUrl: string;
	fields: { troubleContact: string; perplexityReason: string };
}

/** Starts a stand-in of the CRM and the synchroniser that mirrors it, each in a separate process. */
export async function startCrm(databaseUrl: string, undo: (() => Promise<void>)[]): Promise<Crm> {
	const child = fork(fileURLToPath(import.meta.resolve('@contacts/bitrix24-stand-in/main.js')), [], {
		env: { ...process.env, PORT: '0' },
		detached: true,
		stdio: ['ignore', 'pipe', 2, 'ipc'],
		execArgv: [],
	});
	const ended = once(child, 'exit');
	undo.push(async () => {
		if (child.connected) child.disconnect();
		await ended;
	});
	if (child.stdout === null) throw new StartError('The stand-in of the CRM did not start.');
	const [line] = (await Promise.race([once(createInterface(child.stdout), 'line'), ended])) as [unknown];
	if (typeof line !== 'string') throw new StartError('The stand-in of the CRM did not start: see its lines above.');
	const { webhookUrl, fields } = JSON.parse(line) as Announcement;

	const environment = {
		...process.env,
		DATABASE_URL: databaseUrl,
		BITRIX24_WEBHOOK_URL: webhookUrl,
		BITRIX24_UF_TROUBLE: fields.troubleContact,
		BITRIX24_UF_REASON: fields.perplexityReason,
		BITRIX24_INTERVAL_SECONDS: '10',
	};
	const program = '@contacts/company-contacts/sync/main.js';
	const synchroniser = await startService('company-contacts-sync', await freePort(), environment, program);
	undo.push(synchroniser.stop);
	return { webhookUrl, synchroniserUrl: synchroniser.url };
}
