import type { Kind, Outcome } from './requests.js';

export interface SoakLoad {
	/** Requests with the expected response, or dropped on purpose. */
	readonly expected: number;
	readonly unexpected: number;
	/** Requests that were not sent because too many were in flight. */
	readonly heldBack: number;
	/** How often each kind had each outcome. */
	readonly counts: ReadonlyMap<string, ReadonlyMap<Outcome, number>>;
	/** Stops, and resolves once the requests in flight have finished. */
	stop(): Promise<void>;
}

/** As many as a service always admits. On a machine that is too slow, requests are held back instead of being refused. */
const maxInFlight = 50;

/** Sends requests at a steady rate, whether or not earlier ones have finished. */
export function startSoakLoad(kinds: readonly Kind[], perSecond: number): SoakLoad {
	const deck = kinds.flatMap((kind) => Array<Kind>(kind.share).fill(kind));
	const counts = new Map(kinds.map(({ name }) => [name, new Map<Outcome, number>()]));
	const inFlight = new Set<Promise<void>>();
	const begun = performance.now();
	let due = 0;
	const load = { expected: 0, unexpected: 0, heldBack: 0 };

	async function send({ name, expected, send }: Kind): Promise<void> {
		const outcome = await send();
		const ofKind = counts.get(name);
		ofKind?.set(outcome, (ofKind.get(outcome) ?? 0) + 1);
		load[expected.includes(outcome) ? 'expected' : 'unexpected']++;
	}
	const timer = setInterval(() => {
		for (; due < ((performance.now() - begun) / 1000) * perSecond; due++) {
			const kind = deck[Math.floor(Math.random() * deck.length)];
			if (kind === undefined || inFlight.size >= maxInFlight) {
				load.heldBack++;
				continue;
			}
			const request = send(kind).finally(() => inFlight.delete(request));
			inFlight.add(request);
		}
	}, 20);
	return Object.assign(load, {
		counts,
		async stop() {
			clearInterval(timer);
			await Promise.all(inFlight);
		},
	});
}
