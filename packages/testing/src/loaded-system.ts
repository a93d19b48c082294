import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '@contacts/local-postgres/ports.js';
import type { RoleUser } from '@contacts/migrations/roles.js';
import { type StandIn, startStandIn } from '@contacts/testing/bitrix24/stand-in.js';
import { vi } from 'vitest';
import { seededRandom } from './random.js';
import { type RunningService, spawnService, startService } from './services.js';
import { type Clients, startClients } from './upserting-clients.js';

const credentials = 'project=bot&api_key=bot-key';
const names = ['personal-contacts', 'company-contacts', 'crm-sync'] as const;

type Name = (typeof names)[number];

/** Times until something worked, in milliseconds. */
export interface Recovery {
	/** Twenty more upserts were acknowledged: more than there are clients. */
	upserts: number;
	/** A contact that was added to the CRM is listed by company-contacts. */
	mirror: number;
	/** All three processes were ready. */
	ready: number;
}

/** Both services and the synchroniser as processes, with a stand-in for the CRM, under a constant load of upserts and lists. */
export interface LoadedSystem {
	clients: Clients;
	standIn: StandIn;
	/** The statuses of `GET /health/ready` since this moment of `performance.now()`. */
	readiness(name: Name, since: number): number[];
	/** The statuses of all lists. */
	lists: Map<number, number>;
	/** Waits until everything works again. */
	recovery(): Promise<Recovery>;
	/** Stops the load, and then the processes gracefully. */
	stop(): Promise<void>;
	/** Exit codes and the whole output, after the stop. */
	exits(): Promise<{ name: Name; code: number | string; output: string }[]>;
}

/** @param urlFor the database's URL for a role */
export async function startLoadedSystem(urlFor: (role: RoleUser) => string): Promise<LoadedSystem> {
	const standIn = await startStandIn({ plan: 'enterprise' });
	for (let n = 0; n < 200; n++) standIn.add({ lastName: `Contact ${n}` });
	const running = {} as Record<Name, RunningService>;
	running['personal-contacts'] = await startService('personal-contacts', { DATABASE_URL: urlFor('personal-contacts') });
	running['company-contacts'] = await startService('company-contacts', {
		DATABASE_URL: urlFor('company-contacts'),
		RATE_LIMIT_PER_SECOND: '1000000',
		RATE_LIMIT_BURST: '1000000',
	});
	const settings = {
		PORT: String(await freePort()),
		DATABASE_URL: urlFor('crm-sync'),
		BITRIX24_WEBHOOK_URL: standIn.webhookUrl,
		BITRIX24_PLAN: 'enterprise',
		BITRIX24_INTERVAL_SECONDS: '5',
		BITRIX24_APPLICATION_TOKEN: 'x'.repeat(32),
	};
	const sync = await startService('crm-sync', settings);
	await sync.waitForLine(/run done/);
	running['crm-sync'] = sync;

	const seen: { name: Name; at: number; status: number }[] = [];
	const lists = new Map<number, number>();
	let stopped = false;
	/** A synchroniser whose session is lost ends. What runs it starts it again, here at once. */
	const keepRunning = async () => {
		while ((await running['crm-sync'].exit) !== undefined && !stopped) {
			const { url } = running['crm-sync'];
			running['crm-sync'] = Object.assign(spawnService('crm-sync', settings), { url });
		}
	};
	const kept = keepRunning();
	const list = async () => {
		const response = await fetch(`${running['company-contacts'].url}/api/company_contacts.list?${credentials}`);
		lists.set(response.status, (lists.get(response.status) ?? 0) + 1);
		const text = await response.text();
		return response.ok ? text : '';
	};
	const repeat = async (work: () => Promise<unknown>) => {
		while (!stopped) {
			await work();
			await delay(100);
		}
	};
	const loops = [
		repeat(list),
		...names.map((name) =>
			repeat(async () => {
				const response = await fetch(`${running[name].url}/health/ready`).catch(() => undefined);
				// Only the synchroniser may be between two processes.
				if (response !== undefined || name !== 'crm-sync')
					seen.push({ name, at: performance.now(), status: response?.status ?? 0 });
			}),
		),
	];
	const upserts = `${running['personal-contacts'].url}/api/personal_contacts?${credentials}`;
	const clients = startClients(upserts, 8, 50, seededRandom());
	await vi.waitUntil(() => clients.acknowledged > 200, { timeout: 60_000 });

	return {
		clients,
		standIn,
		lists,
		readiness: (name, since) =>
			seen.filter((each) => each.name === name && each.at >= since).map((each) => each.status),
		async recovery() {
			const begun = performance.now();
			const until = async (condition: () => boolean | Promise<boolean>) => {
				await vi.waitUntil(condition, { timeout: 40_000, interval: 50 });
				return performance.now() - begun;
			};
			const acknowledged = clients.acknowledged + 20;
			const { id } = standIn.add({ lastName: 'Added after the failover' });
			const isReady = (name: Name) => seen.findLast((each) => each.name === name && each.at > begun)?.status === 200;
			const [upserts, mirror, ready] = await Promise.all([
				until(() => clients.acknowledged >= acknowledged).catch(() => Number.POSITIVE_INFINITY),
				until(async () => (await list()).includes(`"bitrix_id":${id},`)).catch(() => Number.POSITIVE_INFINITY),
				until(() => names.every(isReady)).catch(() => Number.POSITIVE_INFINITY),
			]);
			return { upserts, mirror, ready };
		},
		async stop() {
			stopped = true;
			await Promise.all([clients.stop(), ...loops]);
			await Promise.all(names.map((name) => running[name].stop()));
			await kept;
			await standIn.close();
		},
		exits: () =>
			Promise.all(
				names.map(async (name) => ({ name, code: await running[name].exit, output: running[name].output() })),
			),
	};
}
