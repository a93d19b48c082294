import { setTimeout as delay } from 'node:timers/promises';

/** The status of a list, or why there was none; times are milliseconds of `performance.now()`. */
export interface Seen {
	at: number;
	outcome: number | string;
}

export interface Load {
	/** Lists of a partner, who calls the other gateway when one fails. */
	lists: Seen[];
	/** When requests were admitted of a project that sends more than its limit. */
	admitted: number[];
	stop(): Promise<void>;
}

/** Partners that know both gateways and use the other one after a failure. */
export function startLoad(gateways: readonly string[]): Load {
	const load = { lists: [] as Seen[], admitted: [] as number[] };
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
	async function askTooOften(gateway: string): Promise<void> {
		for (; !stopped; await delay(100))
			if ((await get(gateway, 'greedy')) === 200) load.admitted.push(performance.now());
	}
	const running = [list(), ...gateways.map(askTooOften)];
	return Object.assign(load, {
		async stop() {
			stopped = true;
			await Promise.all(running);
		},
	});
}
