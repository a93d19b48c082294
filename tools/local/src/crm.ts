import { setTimeout as delay } from 'node:timers/promises';
import { sampleContacts, sampleFieldNames, sampleFields } from '@contacts/testing/bitrix24/sample-contacts.js';
import { startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { freePort } from '@contacts/testing/ports.js';
import { type ChildService, spawnService } from './child-service.js';
import type { StopSteps } from './launcher.js';

export interface Crm {
	webhookUrl: string;
	synchroniserUrl: string;
}

const firstPauseMs = 500;
const maxPauseMs = 30_000;

/** Starts a stand-in of the CRM, and the synchroniser that mirrors it in a separate process. */
export async function startCrm(databaseUrl: string, stopSteps: StopSteps): Promise<Crm> {
	const { webhookUrl, close } = await startStandIn({ port: 0, fields: sampleFields, contacts: sampleContacts(200) });
	stopSteps.push(close);
	const port = await freePort();
	const environment = {
		DATABASE_URL: databaseUrl,
		BITRIX24_WEBHOOK_URL: webhookUrl,
		BITRIX24_UF_TROUBLE: sampleFieldNames.troubleContact,
		BITRIX24_UF_REASON: sampleFieldNames.perplexityReason,
		BITRIX24_INTERVAL_SECONDS: '10',
	};
	const start = () => spawnService('crm-sync', port, environment);
	const synchroniser = start();
	keepRunning(synchroniser, start, stopSteps);
	await synchroniser.ready();
	return { webhookUrl, synchroniserUrl: synchroniser.url };
}

/** Starts the synchroniser again when it has ended, as a service manager does. */
function keepRunning(first: ChildService, start: () => ChildService, stopSteps: StopSteps): void {
	let current = first;
	const stopping = new AbortController();
	stopSteps.push(async () => {
		stopping.abort();
		await current.stop();
	});
	const restart = async () => {
		for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
			await current.ended;
			stopping.signal.throwIfAborted();
			process.stderr.write(`crm-sync has ended by itself: starting it again in ${pauseMs / 1000} s.\n`);
			await delay(pauseMs, undefined, { signal: stopping.signal });
			current = start();
		}
	};
	restart().catch(() => undefined);
}
