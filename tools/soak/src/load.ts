import type { Kind, Outcome } from './requests.js';

export interface Load {
	/** Requests with the expected response, or dropped on purpose. */
	readonly answered: number;
	readonly unexpected: number;
	/** Requests that were not sent because too many were in flight. */
	readonly heldBack: number;
	/** How often each kind had each outcome. */
	readonly counts: ReadonlyMap<string, ReadonlyMap<Outcome, number>>;
	/** Stops, and resolves once the requests in flight have finished. */
	stop(): Promise<void>;
}

const mostAtOnce = 500;

/** Sends requests at a steady rate, whether or not earlier ones have finished. */
export function startLoad(kinds: readonly Kind[], perSecond: number): Load {
	const deck = kinds.flatMap((kind) => Array<Kind>(kind.share).fill(kind));
	const counts = new Map(kinds.map(({ name }) => [name, new Map<Outcome, number>()]));
	const underWay = new Set<Promise<void>>();
	const begun = performance.now();
	let due = 0;
	let answered = 0;
	let unexpected = 0;
	let heldBack = 0;

	async function send({ name, expected, send }: Kind): Promise<void> {
		const outcome = await send();
		const ofKind = counts.get(name);
		ofKind?.set(outcome, (ofKind.get(outcome) ?? 0) + 1);
		if (expected.includes(outcome)) answered++;
		else unexpected++;
	}
	const timer = setInterval(() => {
		for (; due < ((performance.now() - begun) / 1000) * perSecond; due++) {
			const kind = deck[Math.floor(Math.random() * deck.length)];
			if (kind === undefined || underWay.size >= mostAtOnce) {
				heldBack++;
				continue;
			}
			const request = send(kind).finally(() => underWay.delete(request));
			underWay.add(request);
		}
	}, 20);
	return {
		get answered() {
			return answered;
		},
		get unexpected() {
			return unexpected;
		},
		get heldBack() {
			return heldBack;
		},
		counts,
		async stop() {
			clearInterval(timer);
			await Promise.all(underWay);
		},
	};
}
