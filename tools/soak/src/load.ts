import type { Kind, Outcome } from './requests.js';

export interface Load {
	/** Requests that were answered, or dropped as intended. */
	readonly answered: number;
	readonly unexpected: number;
	/** Requests that were not sent because too many had no answer yet. */
	readonly heldBack: number;
	/** How often each kind had each outcome. */
	readonly counts: ReadonlyMap<string, ReadonlyMap<Outcome, number>>;
	/** Gives after the requests under way. */
	stop(): Promise<void>;
}

const mostAtOnce = 500;

/** Sends requests at a steady rate, whether or not those before were answered. */
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
