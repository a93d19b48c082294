/** The resources to end, however the run ends. */
export interface Lifetime {
	/**
	 * Registers a function that ends a resource.
	 *
	 * @returns a function that ends it now; a second call does nothing
	 * @throws Interrupted during the shutdown; the resource then ends at once
	 */
	own(end: () => Promise<void> | void): () => Promise<void>;
	/**
	 * Ends everything that remains, in reverse order. From then on it refuses registrations.
	 *
	 * @throws the first failure, once all others have ended
	 */
	end(): Promise<void>;
	readonly ending: boolean;
}

/** Somebody interrupted the run. */
export class Interrupted extends Error {
	override name = 'Interrupted';
}

export function createLifetime(): Lifetime {
	const owned: (() => Promise<void>)[] = [];
	let ending: Promise<void> | undefined;

	async function endAll(): Promise<void> {
		const failures: unknown[] = [];
		for (let step = owned.pop(); step !== undefined; step = owned.pop()) {
			await step().catch((error: unknown) => failures.push(error));
		}
		if (failures.length > 0) throw failures[0];
	}

	return {
		own(end) {
			let ended: Promise<void> | undefined;
			const once = () => {
				ended ??= (async () => {
					const place = owned.indexOf(once);
					if (place >= 0) owned.splice(place, 1);
					await end();
				})();
				return ended;
			};
			if (ending !== undefined) {
				once().catch(() => undefined);
				throw new Interrupted('interrupted');
			}
			owned.push(once);
			return once;
		},
		end() {
			ending ??= endAll();
			return ending;
		},
		get ending() {
			return ending !== undefined;
		},
	};
}
