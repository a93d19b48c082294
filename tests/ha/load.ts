import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '@contacts/testing/random.js';
import { createUpsertClient, type ResponseStatus } from '@contacts/testing/upsert-client.js';
import { columnsOf } from '@contacts/testing/upserting-clients.js';

/** A response or a failure; times are milliseconds of `performance.now()`. */
export interface Seen {
	at: number;
	outcome: ResponseStatus;
}

export interface Load {
	upserts: Seen[];
	/** Lists of a partner, who calls the other gateway when one fails. */
	lists: Seen[];
	/** When requests were admitted of a project that sends more than its limit. */
	admitted: number[];
	/** By chat: the last version that was sent, and the last that was acknowledged. */
	sent: Map<number, number>;
	stored: Map<number, number>;
	stop(): Promise<void>;
}

const clients = 6;
const chatsEach = 20;

/** Clients that know both addresses and use the other one after a failure. */
export function startLoad(personal: readonly string[], gateways: readonly string[], random: Random): Load {
	const upserts = createUpsertClient();
	const load = { upserts: [] as Seen[], lists: [] as Seen[], admitted: [] as number[] };
	const [sent, stored] = [new Map<number, number>(), new Map<number, number>()];
	let stopped = false;

	async function save(client: number): Promise<void> {
		for (let address = client; !stopped; ) {
			const chat = 1 + client * chatsEach + random.integer(0, chatsEach - 1);
			const version = (sent.get(chat) ?? 0) + 1;
			sent.set(chat, version);
			const url = `${personal[address % personal.length]}/api/personal_contacts?project=bot&api_key=bot-key`;
			const outcome = await upserts.upsert(url, { chat_id: chat, ...columnsOf(version) });
			load.upserts.push({ at: performance.now(), outcome });
			if (outcome === 200) stored.set(chat, version);
			else address++;
			await delay(outcome === 200 ? 25 : 50);
		}
	}
	const get = async (gateway: string | undefined, project: string): Promise<ResponseStatus> => {
		try {
			const url = `${gateway}/api/company_contacts.list?project=${project}&api_key=${project}-key`;
			const response = await fetch(url, { signal: AbortSignal.timeout(5000) });
			await response.arrayBuffer();
			return response.status;
		} catch (error) {
			return (error as { cause?: { code?: string } }).cause?.code ?? (error as Error).name;
		}
	};
	async function list(): Promise<void> {
		for (let address = 0; !stopped; await delay(400)) {
			let outcome = await get(gateways[address % gateways.length], 'partner');
			if (outcome !== 200) outcome = await get(gateways[++address % gateways.length], 'partner');
			load.lists.push({ at: performance.now(), outcome });
		}
	}
	async function askTooOften(gateway: string): Promise<void> {
		for (; !stopped; await delay(100))
			if ((await get(gateway, 'greedy')) === 200) load.admitted.push(performance.now());
	}
	const running = [
		...Array.from({ length: clients }, (_, client) => save(client)),
		list(),
		...gateways.map(askTooOften),
	];
	return Object.assign(load, {
		sent,
		stored,
		async stop() {
			stopped = true;
			await Promise.all(running);
			upserts.close();
		},
	});
}
