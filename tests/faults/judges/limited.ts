import { type Breach, createCaller, type Judge, repeat, type Seen } from './judge.js';

const [burst, perSecond, replicas] = [250, 5, 2];

/** Sends more than a project may, through the gateway, and counts what is admitted. */
export const limited: Judge = {
	name: 'limited',
	promise: 4,
	start(place, random) {
		const seen: Seen[] = [];
		const judged: number[] = [];
		const breaches: Breach[] = [];
		const caller = createCaller(place, random, seen);
		const begun = performance.now();
		let admitted = 0;
		const ask = async () => {
			const { outcome, ended } = await caller.call(
				`${place.gateway}/api/company_contacts.list?company_id=1&project=greedy&api_key=greedy-key`,
			);
			// A response that was lost on the way took a token, too.
			if (outcome === 200) admitted++;
			if (outcome === 429) judged.push(ended);
			return outcome;
		};
		const atOnce = Promise.all(Array.from({ length: burst + 20 }, ask));
		/** More and more, for as long as none is refused. */
		let count = 2;
		const loop = repeat(async () => {
			const outcomes = await Promise.all(Array.from({ length: count }, ask));
			count = outcomes.includes(429) ? 2 : Math.min(2 * count, 50);
		}, 100);
		return {
			judged,
			seen,
			breaches,
			async stop(redis) {
				await Promise.all([atOnce, loop.stop()]);
				caller.close();
				const ended = performance.now();
				// Each process has a bucket of its own while it can't ask Redis, and a Redis that comes back has new ones.
				const more = (redis.own + redis.changes) * burst + (redis.awayMs / 1000) * replicas * perSecond;
				const allowed = Math.floor(burst + ((ended - begun) / 1000) * perSecond + more);
				if (admitted > allowed)
					breaches.push({ what: `${admitted} requests were admitted, of at most ${allowed}`, begun, ended });
			},
		};
	},
};
