import { setTimeout as delay } from 'node:timers/promises';

/** The status of a list, or why there was none; times are milliseconds of `performance.now()`. */
export interface Seen {
	at: number;
	outcome: number | string;
}

export interface Load {
	/** Lists of a partner, who calls the other gateway when one fails. */
	lists: Seen[];
	/** When users were saved, each of another chat: such clients never wait for each other, as those of one chat do. */
	saved: number[];
	/** When requests were admitted of a project that sends more than its limit. */
	admitted: number[];
	stop(): Promise<void>;
}

/** Backends that know both addresses of personal-contacts, and partners that use the other gateway after a failure. */
export function startLoad(personal: readonly string[], gateways: readonly string[]): Load {
	const load = { lists: [] as Seen[], saved: [] as number[], admitted: [] as number[] };
	let stopped = false;

	const get = async (gateway: string | undefined, project: string): Promise<Seen['outcome']> => {
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
	async function save(): Promise<void> {
		const sent: Promise<void>[] = [];
		for (let chat = 1_000_000; !stopped; chat++, await delay(200)) {
			const options = {
				method: 'POST',
				headers: { 'content-type': 'application/json' },
				body: JSON.stringify({ chat_id: chat }),
			};
			const url = `${personal[chat % personal.length]}/api/personal_contacts?project=bot&api_key=bot-key`;
			const saving = fetch(url, { ...options, signal: AbortSignal.timeout(6000) });
			sent.push(saving.then(({ ok }) => void (ok && load.saved.push(performance.now()))).catch(() => undefined));
		}
		await Promise.all(sent);
	}
	async function askTooOften(gateway: string): Promise<void> {
		for (; !stopped; await delay(100))
			if ((await get(gateway, 'greedy')) === 200) load.admitted.push(performance.now());
	}
	const running = [list(), save(), ...gateways.map(askTooOften)];
	return Object.assign(load, {
		async stop() {
			stopped = true;
			await Promise.all(running);
		},
	});
}
